"""The rule of each field that has one: types that refuse what the engine could not use.

Those of targets have files of their own: rules_url, rules_headers, rules_shell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from engine.clock import Clock
from engine.errors import BadInput
from engine.names import (
    JOB_ID,
    MOST_TAGS,
    QUEUE,
    check_group,
    check_job_id,
    check_queue,
    check_tags,
)
from engine.plan import DIALECT_SUMMARIES, parse_instant, parse_schedule
from engine.plan.schedule import MOST_PARTS
from engine.store.jobs import MAX_PAGE

_YEAR_2200 = 7_258_118_400_000

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
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise _refuse("this must be a whole number")
    return int(text)


def shown(kind: str | list[str], about: str = "", **more: Any) -> WithJsonSchema:
    """Return how the API's document shows a type whose rule no schema could say in full."""
    said = {"description": about} if about else {}
    return WithJsonSchema({"type": kind, **said, **more})


def in_full(pattern: re.Pattern[str]) -> str:
    """Return a pattern that is to match in full as JSON Schema has it, where one searches."""
    return f"^{pattern.pattern}$"


JobId = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: check_job_id(text))),
    shown("string", "The id of a job.", pattern=in_full(JOB_ID), examples=["nightly-report"]),
]
Queue = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: check_queue(text))),
    shown("string", "The name of a queue.", pattern=in_full(QUEUE), examples=["mail"]),
]
Group = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: check_group(text))),
    shown("string", "The name of a group of jobs.", pattern=in_full(QUEUE), examples=["billing"]),
]
Tags = Annotated[
    list[str],
    AfterValidator(lambda tags: [*ask(lambda: check_tags(tags))]),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": in_full(QUEUE)},
            "maxItems": MOST_TAGS,
            "uniqueItems": True,
            "description": "What jobs are to be found by.",
            "examples": [["nightly", "eu"]],
        }
    ),
]
PageLimit = Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(whole_number)]
MOST_UPCOMING = 1_000
UpcomingLimit = Annotated[int, Field(ge=1, le=MOST_UPCOMING), BeforeValidator(whole_number)]
_EXPRESSION = {"type": "string", "format": "schedule", "minLength": 1}
_EXPRESSIONS = {"type": "array", "items": _EXPRESSION, "minItems": 1, "maxItems": MOST_PARTS}
Schedule = Annotated[
    Any,
    AfterValidator(_check_schedule),
    WithJsonSchema(
        {
            "anyOf": [_EXPRESSION, _EXPRESSIONS],
            "description": "When the job runs: a cron expression of any dialect, an interval"
            " (`every 15m`), a time (`2030-01-31T09:00:00Z`), or a list of them that are"
            " joined.",
            "examples": ["0 9 * * 1-5", "every 15m"],
        }
    ),
]
"""A text, or a tuple of texts that are joined."""
Dialect = Annotated[
    str,
    AfterValidator(_check_dialect),
    shown(
        "string",
        "How to read the expression; without it that is recognised.",
        enum=[*DIALECT_SUMMARIES],
    ),
]
Instant = Annotated[
    int,
    BeforeValidator(_check_instant),
    shown(
        "string",
        "A time in RFC 3339, with its offset.",
        format="date-time",
        examples=["2030-01-31T09:00:00Z"],
    ),
]
"""RFC 3339 text, taken as milliseconds."""
ExplainedTime = Annotated[Instant, AfterValidator(_check_past_or_future)]
Timezone = Annotated[
    str,
    AfterValidator(_check_timezone),
    shown("string", "A zone of the IANA database.", format="time-zone", examples=["Europe/Paris"]),
]
WorkerName = Annotated[
    str,
    AfterValidator(_check_worker),
    shown("string", "The name of a consumer.", pattern=in_full(QUEUE), examples=["mailer-1"]),
]
Prefix = Annotated[
    str,
    AfterValidator(_check_prefix),
    shown("string", "How an id begins.", pattern=f"^({JOB_ID.pattern})?$"),
]
