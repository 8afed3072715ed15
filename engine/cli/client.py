"""The HTTP API as the command line uses it: JSON in, JSON out, and refusals in the user's words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import click

from engine.access import API_KEY
from engine.cli.words import in_own_words, place_of
from engine.errors import BadInput, Unauthorized
from engine.logs import printable

TIMEOUT_S = 30
SILENCE_S = 45
"""A stream tells of itself each quarter of a minute."""
_NO_KEY = (
    "the API asks for a key that is good: set WATERCLOCK_API_KEY, or name a file that holds it with"
    " --api-key-file"
)
_NEXT = re.compile(r'<([^>]*)>; *rel="next"')


class Refused(click.ClickException):
    """The API understood and said no. `code` is one of the codes of `engine.errors`."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.code = str(problem.get("code"))
        faults = [fault_text(error) for error in problem.get("errors") or ()]
        if self.code == Unauthorized.code:
            faults = [_NO_KEY]
        lines = faults or [in_own_words(str(problem.get("detail") or problem.get("title")))]
        super().__init__("\n".join(map(printable, lines)))


class Unreachable(click.ClickException):
    """No API answers, or its answer was cut off."""


def fault_text(error: dict[str, str]) -> str:
    """Return `place: what to do` of one entry of a problem's `errors`, in words of the running
    command."""
    place, detail = place_of(error.get("pointer", ""), error.get("parameter", "")), error["detail"]
    return f"{place}: {in_own_words(detail)}" if place else in_own_words(detail)


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the API sends none, and the key would go along to wherever it leads."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Api:
    """One API at a base URL. Every method returns the answer's JSON, None where it has none.

    Raises Refused for a problem that the API reports, and ClickException if none answers there.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        """Raises BadInput unless `url` is http:// or https:// (urllib would open files, too), and
        `key` is an API key."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadInput("the API's URL must begin with http:// or https:// (--api)")
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        # Not the proxies of the environment: they would be asked for 127.0.0.1 as well.
        self._opener = build_opener(ProxyHandler({}), _NoRedirect())
        if key is not None and not API_KEY.fullmatch(key):
            raise BadInput(
                "what WATERCLOCK_API_KEY or the file of --api-key-file holds is no API key; one"
                " begins with wck_"
            )
        self._key = key

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

    def work(self, *path: str, body: object) -> Any:
        """Post what a worker says of executions."""
        return self._send("POST", ("executions", *path), body=body, under="internal")

    def post_lines(self, *path: str, lines: bytes, **query: object) -> list[Any]:
        """Post NDJSON; return the answer's lines."""
        answers: list[Any] = self._send("POST", path, query=query, lines=lines)
        return answers

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

    @contextmanager
    def stream(self, *path: str, **query: object) -> Iterator[Iterator[bytes]]:
        """Open an answer that goes on; yield its lines as they come. Raises Unreachable where it is
        cut off, too."""
        request = Request(self._url_of("v1", path, query), headers=self._headers())
        with self._opened(request, max(self._timeout_s, SILENCE_S)) as answer:
            yield iter(answer)

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
        lines: bytes | None = None,
        version: int | None = None,
        under: str = "v1",
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the answer's JSON, and its headers."""
        headers = self._headers()
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        data = ical or lines
        if ical is not None:
            headers["Content-Type"] = "text/calendar; charset=utf-8"
        elif lines is not None:
            headers["Content-Type"] = "application/x-ndjson"
        elif body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        url = self._url_of(under, path, query or {})
        request = Request(url, data, headers, method=method)
        with self._opened(request, self._timeout_s) as answer:
            text = answer.read()
            if lines is not None:
                return [json.loads(line) for line in text.splitlines()], answer.headers
            return json.loads(text) if text else None, answer.headers

    def _url_of(self, under: str, path: tuple[str, ...], query: Mapping[str, object]) -> str:
        given = {name: value for name, value in query.items() if value is not None}
        url = "/".join([f"{self._url}/{under}", *(quote(part, safe="") for part in path)])
        return f"{url}?{urlencode(given, doseq=True)}" if given else url

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    @contextmanager
    def _opened(self, request: Request, timeout_s: float) -> Iterator[Any]:
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                yield answer
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(
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
