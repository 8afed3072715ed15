"""One time, with its offset: `2030-01-31T09:00:00+01:00`, as in RFC 3339; T may be a space."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from engine.errors import BadInput, NeverFires
from engine.plan.cron_eval import HORIZON_DAYS
from engine.plan.cron_parse import refusal
from engine.plan.dialects.base import Context, Dialect
from engine.plan.schedule import Once

_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 the offset is taken away by hand
_HORIZON_MS = HORIZON_DAYS * 86_400_000


def parse_time(expr: str, context: Context) -> Once:
    """Return the one time that the text names.

    Refuses with BadExpression other text, with BadInput a time that is not after now, and with
    NeverFires one more than 100 years away.
    """
    text, now = " ".join(expr.split()), context.now
    at = parse_instant(text)
    if at <= now:
        raise BadInput(
            f"{text!r} is not after now ({_rfc_3339(now)}), so it would never fire; leave"
            " schedule_expr out to run the job at once",
            field="schedule_expr",
        )
    if at > now + _HORIZON_MS:
        raise NeverFires(f"{text!r} is more than 100 years away", field="schedule_expr")
    return Once(at)


def parse_instant(text: str) -> int:
    """Return the time in ms UTC; digits finer than a millisecond are dropped.

    Refuses with BadExpression other text, and times that the calendar does not have.
    """
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
    return elapsed // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0")[:3])


def _rfc_3339(at: int) -> str:
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return moment.strftime(f"%Y-%m-%dT%H:%M:%S.{at % 1000:03d}Z")


RFC_3339 = Dialect("rfc3339", "one time, with its offset from UTC", parse_time)
