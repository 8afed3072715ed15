"""The rule of a target's own headers (RFC 9110, 5.5 and 5.6.2): none that could end its line, and
none of those that the engine or HTTP itself sets. No text repeats a value: it may be a secret."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from api.rules import in_full, shown
from engine.errors import BadInput

MAX_HEADERS = 50
MAX_HEADER_CHARS = 8_192
MAX_ALL_CHARS = 32_768

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_OF_THE_CONNECTION = {
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""What they say is between two ends of a connection, and here it is not the job's."""
_RESERVED = _OF_THE_CONNECTION | {"idempotency-key", "prefer", "traceparent", "tracestate"}
_RESERVED_PREFIXES = ("waterclock-", "webhook-")


def _refuse(detail: str) -> PydanticCustomError:
    return PydanticCustomError(BadInput.code, "{detail}", {"detail": detail})


def _check_name(name: str, info: ValidationInfo) -> str:
    if not _TOKEN.fullmatch(name):
        raise _refuse("this is not the name of a header (RFC 9110, token)")
    folded = name.lower()
    if name in (info.context or {}).get("kept_headers", ()):
        return name
    if folded in _RESERVED or folded.startswith(_RESERVED_PREFIXES):
        raise _refuse("this header is set by Waterclock itself, or by the connection; leave it out")
    return name


def _check_value(value: str) -> str:
    if len(value) > MAX_HEADER_CHARS or not _VALUE.fullmatch(value):
        raise _refuse(
            f"a header's value has {MAX_HEADER_CHARS} characters at the most, all of Latin-1, and"
            " no line breaks or other control characters"
        )
    return value


def _check_all(headers: dict[str, str]) -> dict[str, str]:
    if len(headers) > MAX_HEADERS:
        raise _refuse(f"a target has {MAX_HEADERS} headers at the most")
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_ALL_CHARS:
        raise _refuse(f"a target's headers have {MAX_ALL_CHARS} characters in all at the most")
    if len({name.lower() for name in headers}) < len(headers):
        raise _refuse("two headers have the same name: upper and lower case are one")
    return headers


Headers = Annotated[
    dict[Annotated[str, AfterValidator(_check_name)], Annotated[str, AfterValidator(_check_value)]],
    AfterValidator(_check_all),
    shown(
        "object",
        "The target's own headers.",
        propertyNames={"pattern": in_full(_TOKEN)},
        additionalProperties={
            "type": "string",
            "maxLength": MAX_HEADER_CHARS,
            "pattern": in_full(_VALUE),
        },
        maxProperties=MAX_HEADERS,
    ),
]
"""Its validation context may hold `kept_headers`, names that are taken though they are reserved."""
