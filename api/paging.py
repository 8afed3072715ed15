"""Lists that come in pages: where the next page is, in the header Link (RFC 8288)."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request


def next_link(request: Request, after: str | None) -> dict[str, str]:
    """Return the header that leads to the page behind `after`; no header for None, the end."""
    if after is None:
        return {}
    given = [pair for pair in request.query_params.multi_items() if pair[0] != "after"]
    query = urlencode([*given, ("after", after)])
    return {"Link": f'<{request.url.path}?{query}>; rel="next"'}
