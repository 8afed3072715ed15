"""Placeholders in what an http target is sent: plain replacement, in one pass, of known words.

Nothing is evaluated, and what is put in is never looked at again. A placeholder is `{{word}}`, or
one of the four spellings of EventBridge Scheduler, `<aws.scheduler.word>`; a word that is not known
is refused when the job is registered (`check_template`). In a URL only what stands behind the host
is looked at. Compact JSON has no two braces side by side but in its texts, so a placeholder in a
body always stands in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from engine.errors import BadInput
from engine.model import HttpTarget

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}|<(aws\.scheduler\.[^<>]*)>")
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
MOST_SHOWN = 40
"""Characters of an unknown word that a refusal repeats."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of one attempt when its request is made."""

    execution_id: str
    job_id: str
    nominal_at: int
    attempt: int
    previous_outcome: str = "none"
    """How the job's execution before this one ended, `none` if there is none on record."""


WORDS: Mapping[str, Callable[[Context], str]] = {
    "execution_id": lambda c: c.execution_id,
    "job_id": lambda c: c.job_id,
    "scheduled_for": lambda c: _rfc_3339(c.nominal_at, "milliseconds"),
    "scheduled_for_ms": lambda c: str(c.nominal_at),
    "attempt": lambda c: str(c.attempt),
    "previous_outcome": lambda c: c.previous_outcome,
    # There is no ARN here: a job's id is what names it.
    "aws.scheduler.schedule-arn": lambda c: c.job_id,
    "aws.scheduler.scheduled-time": lambda c: _rfc_3339(c.nominal_at, "seconds"),
    "aws.scheduler.execution-id": lambda c: c.execution_id,
    "aws.scheduler.attempt-number": lambda c: str(c.attempt),
}
"""Word → what stands in its place."""


def check_template(target: HttpTarget, payload: bytes) -> None:
    """Refuse with BadInput, naming the field, a placeholder that is not known."""
    _check(payload.decode(), "payload")
    authority, rest = _split(target.url)
    if _PLACEHOLDER.search(authority):
        raise BadInput(
            "a placeholder may stand in the path and the query of a URL, not in its host",
            field="target.url",
        )
    _check(rest, "target.url")
    for name, value in target.headers.items():
        _check(value, f"target.headers.{name}")


def _check(text: str, field: str) -> None:
    for found in _PLACEHOLDER.finditer(text):
        if (word := _word(found)) not in WORDS:
            raise BadInput(
                f"there is no placeholder {word[:MOST_SHOWN]!r}; there are {', '.join(WORDS)}",
                field=field,
            )


def asks_for(word: str, target: HttpTarget, payload: bytes) -> bool:
    """Return whether a word may stand in a template: what it costs to know is spent only then."""
    return (
        word.encode() in payload
        or word in target.url
        or any(word in value for value in target.headers.values())
    )


def fill_url(url: str, context: Context) -> str:
    """Return a URL with the placeholders of path and query replaced, percent-encoded."""
    authority, rest = _split(url)
    return authority + _fill(rest, context, lambda value: quote(value, safe=""))


def fill_json(body: bytes, context: Context) -> bytes:
    """Return a JSON text with the placeholders in its texts replaced."""
    return _fill(body.decode(), context, lambda value: json.dumps(value)[1:-1]).encode()


def fill_header(value: str, context: Context) -> str:
    """Return a header's value with its placeholders replaced."""
    return _fill(value, context, lambda text: text)


def _fill(text: str, context: Context, escape: Callable[[str], str]) -> str:
    def value(found: re.Match[str]) -> str:
        make = WORDS.get(_word(found))
        # One that this release does not know any more stays as it is.
        return found[0] if make is None else escape(make(context))

    return _PLACEHOLDER.sub(value, text)


def _word(found: re.Match[str]) -> str:
    return (found[1] or found[2] or "").strip()


def _split(url: str) -> tuple[str, str]:
    """Return scheme and authority of a URL, and the rest."""
    found = _AUTHORITY.match(url)
    end = found.end() if found else len(url)
    return url[:end], url[end:]


def _rfc_3339(at: int, precision: str) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")
