"""Every refusal of the API as an RFC 9457 problem, and the one table from code to HTTP status.

A problem is `{type, title, status, detail, code, errors}`. `code` is what programs look at;
`errors` says what is wrong where, all of it at once: `pointer` is a JSON pointer (RFC 6901) into
the body, `parameter` a query parameter. No text repeats a header's value, a URL, or what the server
is like inside.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

import orjson
from pydantic import WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ExceptionHandler
from typing_extensions import TypedDict

from engine.errors import BadInput, RateLimited, RequestInProgress, Unauthorized, WaterclockError
from engine.store.connection import TRANSIENT

log = logging.getLogger(__name__)

STATUS: Mapping[str, int] = {
    "bad_input": 400,
    "bad_expression": 400,
    "never_fires": 400,
    "bad_signature": 400,
    "target_not_public": 400,
    "port_not_allowed": 400,
    "scheme_not_allowed": 400,
    "userinfo_not_allowed": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "cross_site": 403,
    "loop": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "conflict": 409,
    "job_exists": 409,
    "cycle": 409,
    "has_dependents": 409,
    "wrong_state": 409,
    "idempotency_conflict": 409,
    "request_in_progress": 409,
    "stale_delivery": 409,
    "expired": 410,
    "precondition_failed": 412,
    "too_large": 413,
    "unsupported_media_type": 415,
    "rate_limited": 429,
    "quota_exceeded": 429,
    "head_too_large": 431,
    "error": 500,
    "internal": 500,
    "not_supported": 501,
    "fenced": 503,
    "frozen": 503,
    "busy": 503,
    "unavailable": 503,
    "unusable": 503,
}
"""Code → HTTP status: the codes of engine.errors, and those that only HTTP knows."""

_CODE_OF_HTTP = {
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    412: "precondition_failed",
    413: "too_large",
    415: "unsupported_media_type",
}


class Fault(TypedDict, total=False):
    """One thing that is wrong. Exactly one of `pointer` and `parameter` says where."""

    pointer: str
    parameter: str
    detail: str


class ProblemOut(TypedDict):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, WithJsonSchema({"type": "string", "enum": [*STATUS]})]
    """What programs look at: it does not change."""
    errors: list[Fault]
    """All that is wrong, where it is a matter of parts."""


class Invalid(BadInput):
    """A request of which at least one part is wrong; `faults` are all of them."""

    def __init__(self, faults: Sequence[Fault], *, code: str = BadInput.code) -> None:
        one = len(faults) == 1
        super().__init__(faults[0]["detail"] if one else f"{len(faults)} parts are wrong")
        self.faults = faults
        self.code = code


def pointer_to(*parts: str | int) -> str:
    """Return the JSON pointer of a place in the body."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def problem(
    code: str,
    detail: str,
    errors: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer for a code of `STATUS`."""
    status = STATUS[code]
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": errors,
    }
    return guarded(Response(orjson.dumps(body), status, headers, "application/problem+json"))


def guarded(answer: Response) -> Response:
    """Return the answer with the headers that keep it from being taken for something else, and,
    unless its handler knows better, from being kept on its way: it is somebody's, and soon old."""
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, WaterclockError)
    return problem(error.code, error.message, faults_of(error), _headers_of(error))


def faults_of(error: WaterclockError) -> Sequence[Fault]:
    """Return what is wrong where, as far as a refusal knows."""
    if isinstance(error, Invalid):
        return error.faults
    if error.field:
        return [{"pointer": pointer_to(*error.field.split(".")), "detail": error.message}]
    return ()


def _headers_of(error: WaterclockError) -> dict[str, str]:
    match error:
        case Unauthorized():
            return {"WWW-Authenticate": "Bearer"}
        case RateLimited():
            return {"Retry-After": str(error.retry_after_s)}
        case RequestInProgress():
            return {"Retry-After": "1"}
        case _:
            return {}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODE_OF_HTTP[error.status_code]
    match code:
        case "not_found":
            return problem(code, f"there is nothing at {request.url.path}")
        case "method_not_allowed":
            allowed = ", ".join(sorted(_methods_of(request)))
            detail = f"{request.url.path} answers {allowed}"
            return problem(code, detail, headers={"Allow": allowed})
        case _:
            return problem(code, error.detail, headers=error.headers)


def _methods_of(request: Request) -> set[str]:
    """Return the methods of all routes at this path: the router stops at the first."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods
    return methods


UNAVAILABLE = (
    "Redis cannot be reached, or takes no writes now. Whether the request was carried out is"
    " unknown; look, or send it again. If this goes on, start the server or point"
    " WATERCLOCK_REDIS_URL at a running one"
)


async def _unavailable(_: Request, error: Exception) -> Response:
    # The backend warns once; this is told for every request.
    log.debug("Redis did not answer: %s: %s", type(error).__name__, error)
    return problem("unavailable", UNAVAILABLE, headers={"Retry-After": "1"})


async def _gone(_: Request, __: Exception) -> Response:
    # Nobody is there to read it.
    return Response(status_code=400)


async def _internal(_: Request, __: Exception) -> Response:
    # Starlette raises the error again, and the server logs it with its traceback.
    return problem("internal", "Waterclock failed to answer this; its log says why")


HANDLERS: Mapping[int | type[Exception], ExceptionHandler] = {
    WaterclockError: _refused,
    HTTPException: _http,
    ClientDisconnect: _gone,
    **dict.fromkeys(TRANSIENT, _unavailable),
    Exception: _internal,
}
"""Exception → who answers it."""
