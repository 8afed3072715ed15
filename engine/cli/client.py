"""The HTTP API as the command line uses it: JSON in, JSON out, and refusals in the user's words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import click

from engine.errors import BadInput
from engine.logs import printable

TIMEOUT_S = 30
_NEXT = re.compile(r'<([^>]*)>; *rel="next"')


class Refused(click.ClickException):
    """The API understood and said no. `code` is one of the codes of `engine.errors`."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.code = str(problem.get("code"))
        faults = [_fault(error) for error in problem.get("errors") or ()]
        lines = faults or [str(problem.get("detail") or problem.get("title"))]
        super().__init__("\n".join(map(printable, lines)))


def _fault(error: dict[str, str]) -> str:
    """Return `field: what to do` of one entry of a problem's `errors`."""
    parts = error.get("pointer", "").split("/")[1:] or [error.get("parameter", "")]
    field = ".".join(part.replace("~1", "/").replace("~0", "~") for part in parts)
    return f"{field}: {error['detail']}" if field else error["detail"]


class Api:
    """One API at a base URL. Every method returns the answer's JSON, None where it has none.

    Raises Refused for a problem that the API reports, and ClickException if none answers there.
    """

    def __init__(self, url: str) -> None:
        """Raises BadInput unless `url` is http:// or https:// (urllib would open files, too)."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadInput("the API's URL must begin with http:// or https:// (--api)")
        self._url = url.rstrip("/")
        # Not the proxies of the environment: they would be asked for 127.0.0.1 as well.
        self._opener = build_opener(ProxyHandler({}))

    def ready(self) -> Any:
        """Return what `/readyz` says of the server behind the API."""
        return self._send("GET", ("readyz",), root="")

    def get(self, *path: str, **query: object) -> Any:
        return self._send("GET", path, query=query)

    def get_page(self, *path: str, **query: object) -> tuple[Any, str | None]:
        """Return one page of a list, and the `after` of the next one, None at the end."""
        page, headers = self._exchange("GET", path, query=query)
        link = _NEXT.match(headers.get("Link", ""))
        after = parse_qs(urlsplit(link[1]).query).get("after") if link else None
        return page, after[0] if after else None

    def post(self, *path: str, body: object = None) -> Any:
        return self._send("POST", path, body=body)

    def put(
        self,
        *path: str,
        body: object = None,
        ical: bytes | None = None,
        version: int | None = None,
        **query: object,
    ) -> Any:
        """Put JSON, or an iCalendar file; with a `version` only if that one still stands."""
        return self._send("PUT", path, query=query, body=body, ical=ical, version=version)

    def patch(self, *path: str, body: object, version: int | None = None) -> Any:
        """Change what `body` names; with a `version` only if that one still stands."""
        return self._send("PATCH", path, body=body, version=version)

    def delete(self, *path: str, **query: object) -> Any:
        return self._send("DELETE", path, query=query)

    def _send(self, method: str, path: tuple[str, ...], **more: Any) -> Any:
        return self._exchange(method, path, **more)[0]

    def _exchange(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: dict[str, object] | None = None,
        body: object = None,
        ical: bytes | None = None,
        version: int | None = None,
        root: str = "/v1",
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the answer's JSON, and its headers."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        url = "/".join([self._url + root, *(quote(part, safe="") for part in path)])
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        data = ical
        if ical is not None:
            headers["Content-Type"] = "text/calendar; charset=utf-8"
        elif body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        request = Request(
            f"{url}?{urlencode(given)}" if given else url, data, headers, method=method
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
                return json.loads(text) if text else None, answer.headers
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise click.ClickException(
                f"no API answers at {self._url} ({reason}); start one with `waterclock up`, or say"
                " where it is with --api or WATERCLOCK_API_URL"
            ) from None
        except ValueError:
            raise self._stranger("an answer that is not JSON") from None

    def _refusal(self, error: HTTPError) -> click.ClickException:
        try:
            problem = json.loads(error.read())
            if "code" in problem:
                return Refused(problem)
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            pass
        return self._stranger(f"HTTP {error.code}")

    def _stranger(self, what: str) -> click.ClickException:
        return click.ClickException(f"what answers at {self._url} is no Waterclock API: {what}")
