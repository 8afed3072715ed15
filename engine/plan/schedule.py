"""A schedule says when: cron, an interval, once, or as soon as possible. Text in, value out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engine.errors import BadInput, NeverFires
from engine.plan.cron_eval import HORIZON_DAYS, first_after
from engine.plan.cron_parse import check_text, parse_cron, refusal
from engine.plan.interval import parse_interval
from engine.plan.zones import load_zone


@dataclass(frozen=True)
class Cron:
    """Five-field cron in an IANA zone; `expr` as it was sent, with single spaces."""

    expr: str
    timezone: str


@dataclass(frozen=True)
class Every:
    interval_ms: int


@dataclass(frozen=True)
class Once:
    at: int


@dataclass(frozen=True)
class Immediate:
    """As soon as possible, once."""


Schedule = Cron | Every | Once | Immediate

_TIMESTAMP_START = re.compile(r"[0-9]{4}-")
_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 the offset is taken away by hand
_HORIZON_MS = HORIZON_DAYS * 86_400_000


def parse_schedule(expr: str | None, timezone: str = "UTC", *, now: int) -> Schedule:
    """Return the schedule that `expr` means; None means Immediate.

    `expr` is cron, a macro (`@daily`), an interval (`every 1h30m`) or an RFC 3339 time with an
    offset. The zone matters to cron only, and is checked always.

    Refuses, naming the field at fault: BadExpression for text that cannot be read, BadInput for an
    unknown zone or a time that is not after `now`, NeverFires for what has no time in the
    next 100 years.
    """
    zone = load_zone(timezone)
    if expr is None:
        return Immediate()
    check_text(expr)
    text = " ".join(expr.split())
    if _TIMESTAMP_START.match(text):
        return Once(_parse_time(text, now))
    if re.match(r"every\b", text):
        return Every(parse_interval(text))
    # The text as sent, so that the positions in a refusal are those the sender sees.
    fields = parse_cron(expr)
    if first_after(fields, zone, fields.dst, now // 1000) is None:
        raise NeverFires(
            f"{text!r} has no time in the next 100 years: no calendar date, or only a"
            " daylight-saving gap, has it",
            field="schedule_expr",
        )
    return Cron(text, timezone)


def _parse_time(text: str, now: int) -> int:
    """Return the RFC 3339 time in ms; digits finer than that are dropped."""
    match = _RFC_3339.fullmatch(text)
    if not match:
        raise refusal(
            f"{text!r} is not an RFC 3339 time with its offset, such as"
            " '2030-01-31T09:00:00Z' or '2030-01-31T09:00:00+01:00'"
        )
    date, time, fraction, sign, hours, minutes = match.groups()
    try:
        local = datetime.fromisoformat(f"{date}T{time}")
    except ValueError as error:
        raise refusal(f"{text!r} is no time of the calendar: {error}") from error
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    elapsed = local - _EPOCH - (-offset if sign == "-" else offset)
    at = elapsed // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0")[:3])
    if at <= now:
        raise BadInput(
            f"{text!r} is not after now ({_rfc_3339(now)}), so it would never fire; leave"
            " schedule_expr out to run the job at once",
            field="schedule_expr",
        )
    if at > now + _HORIZON_MS:
        raise NeverFires(f"{text!r} is more than 100 years away", field="schedule_expr")
    return at


def _rfc_3339(at: int) -> str:
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return moment.strftime(f"%Y-%m-%dT%H:%M:%S.{at % 1000:03d}Z")
