"""The rule of each field that has one: types that refuse what the engine could not use.

No text repeats a URL or a header's value: they may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from engine.clock import Clock
from engine.errors import BadInput
from engine.names import JOB_ID, QUEUE, check_group, check_job_id, check_queue
from engine.plan import parse_instant, parse_schedule
from engine.store.jobs import MAX_PAGE

MAX_URL_CHARS = 2_048
MAX_HEADERS = 50
MAX_HEADER_CHARS = 8_192

_HOST = re.compile(r"[\w.:-]+")  # a name, or an address whose brackets urlsplit took away
_NOT_IN_URL = re.compile(r"[\s\x00-\x20\x7f-\x9f\\]")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_YEAR_2200 = 7_258_118_400_000
_RESERVED = {"host", "content-length", "transfer-encoding", "connection", "idempotency-key"}
_RESERVED_PREFIX = "waterclock-"

T = TypeVar("T")


def _refuse(detail: str) -> PydanticCustomError:
    return PydanticCustomError(BadInput.code, "{detail}", {"detail": detail})


def ask(check: Callable[[], T]) -> T:
    """Return what the engine's check returns, its BadInput made a validation error with its code
    and field."""
    try:
        return check()
    except BadInput as error:
        context = {"detail": error.message, "field": error.field or ""}
        raise PydanticCustomError(error.code, "{detail}", context) from None


def _check_url(url: str) -> str:
    if len(url) > MAX_URL_CHARS:
        raise _refuse(f"a URL has {MAX_URL_CHARS} characters at the most")
    if _NOT_IN_URL.search(url):
        raise _refuse("a URL has no spaces, control characters or backslashes; percent-encode them")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refuse("the host or the port of this URL cannot be read") from None
    if parts.scheme not in ("http", "https"):
        raise _refuse("a target's URL begins with http:// or https://")
    if "@" in parts.netloc:
        raise _refuse("a URL with a user or password is not taken; send an Authorization header")
    if not host or not _HOST.fullmatch(host):
        raise _refuse("this URL has no host, or one that cannot exist")
    if port == 0:
        raise _refuse("a port is a number from 1 to 65535")
    if "#" in url:
        raise _refuse("a target's URL has no fragment (#…): it is never sent")
    return url


def _check_header_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise _refuse("this is not the name of a header (RFC 9110, token)")
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
        raise _refuse("this header is set by Waterclock itself")
    return name


def _check_header_value(value: str) -> str:
    if len(value) > MAX_HEADER_CHARS or not _HEADER_VALUE.fullmatch(value):
        raise _refuse(
            f"a header's value has {MAX_HEADER_CHARS} characters at the most, all of Latin-1, and"
            " no line breaks or other control characters"
        )
    return value


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    if len(headers) > MAX_HEADERS:
        raise _refuse(f"a target has {MAX_HEADERS} headers at the most")
    if len({name.lower() for name in headers}) < len(headers):
        raise _refuse("two headers have the same name: upper and lower case are one")
    return headers


def _check_schedule(expr: object, info: ValidationInfo) -> str | tuple[str, ...]:
    given = tuple(expr) if isinstance(expr, list) else expr
    texts = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(text, str) for text in texts):
        raise _refuse("this must be an expression, or a list of them that are joined")
    found: str | tuple[str, ...] = given  # type: ignore[assignment]
    clock: Clock = (info.context or {})["clock"]
    # What else decides stands above it in the model; what was refused there is not here.
    known = info.data
    ask(
        lambda: parse_schedule(
            found,
            known.get("timezone", "UTC"),
            now=clock.now_ms(),
            dialect=known.get("dialect"),
            # Without an id a job gets a random one: any stands for it.
            job_id=known.get("job_id") or "job",
        )
    )
    return found


def _check_dialect(name: str) -> str:
    ask(lambda: parse_schedule(None, now=0, dialect=name))
    return name


def _check_instant(text: object) -> int:
    if isinstance(text, str):
        with suppress(BadInput):
            return parse_instant(text)
    raise _refuse("this must be an RFC 3339 time with its offset, such as 2030-01-31T09:00:00Z")


def _check_timezone(name: str) -> str:
    ask(lambda: parse_schedule(None, name, now=0))
    return name


def _check_past_or_future(at: int) -> int:
    if not 0 <= at < _YEAR_2200:
        raise _refuse("this must be a time of the years 1970 to 2199")
    return at


def _check_worker(name: str) -> str:
    if not QUEUE.fullmatch(name):
        raise _refuse(
            "a worker's name is 1 to 64 characters from A–Z a–z 0–9 . _ - and begins with a letter"
            " or digit"
        )
    return name


def _check_prefix(prefix: str) -> str:
    if prefix and not JOB_ID.fullmatch(prefix):
        raise _refuse("no job id begins so")
    return prefix


def whole_number(text: object) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,9}", text):
        raise _refuse("this must be a whole number")
    return int(text)


JobId = Annotated[str, AfterValidator(lambda text: ask(lambda: check_job_id(text)))]
Queue = Annotated[str, AfterValidator(lambda text: ask(lambda: check_queue(text)))]
Group = Annotated[str, AfterValidator(lambda text: ask(lambda: check_group(text)))]
Url = Annotated[str, AfterValidator(_check_url)]
Headers = Annotated[
    dict[
        Annotated[str, AfterValidator(_check_header_name)],
        Annotated[str, AfterValidator(_check_header_value)],
    ],
    AfterValidator(_check_headers),
]
PageLimit = Annotated[int, BeforeValidator(whole_number), Field(ge=1, le=MAX_PAGE)]
MOST_UPCOMING = 1_000
UpcomingLimit = Annotated[int, BeforeValidator(whole_number), Field(ge=1, le=MOST_UPCOMING)]
Schedule = Annotated[Any, AfterValidator(_check_schedule)]
"""A text, or a tuple of texts that are joined."""
Dialect = Annotated[str, AfterValidator(_check_dialect)]
Instant = Annotated[int, BeforeValidator(_check_instant)]
"""RFC 3339 text, taken as milliseconds."""
ExplainedTime = Annotated[Instant, AfterValidator(_check_past_or_future)]
Timezone = Annotated[str, AfterValidator(_check_timezone)]
WorkerName = Annotated[str, AfterValidator(_check_worker)]
Prefix = Annotated[str, AfterValidator(_check_prefix)]
