"""Schedule text to a schedule: the one way in, whatever the dialect."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import BadInput, NeverFires
from engine.plan.cron_eval import first_after
from engine.plan.cron_parse import check_text, refusal
from engine.plan.dialects import Context, Reading, find_dialect, recognise
from engine.plan.schedule import MOST_PARTS, Cron, Every, Immediate, Joined, Once, Reboot, Schedule
from engine.plan.zones import load_zone


def parse_schedule(
    expr: str | Sequence[str] | None,
    timezone: str = "UTC",
    *,
    now: int,
    dialect: str | None = None,
    job_id: str | None = None,
) -> Schedule:
    """Return the schedule that `expr` means; None means Immediate, several texts are joined.

    Without a `dialect` it is recognised if it can be (see `recognise`). `job_id` spreads jobs
    that share a hashed expression (`H`). The zone is checked always; one that stands in the text
    overrules it.

    Refuses, naming the field at fault: BadExpression for text that cannot be read, BadInput for an
    unknown dialect or zone or a time that is not after `now`, NeverFires for what has no time in
    the next 100 years.
    """
    load_zone(timezone)
    if expr is None:
        if dialect is not None:
            find_dialect(dialect)
        return Immediate()
    context = Context(timezone, now, job_id)
    if isinstance(expr, str):
        return _parse_one(expr, context, dialect)
    if not 1 <= len(expr) <= MOST_PARTS:
        raise BadInput(f"1 to {MOST_PARTS} schedules can be joined", field="schedule_expr")
    if len(expr) == 1:
        return _parse_one(expr[0], context, dialect)
    return Joined(tuple(_parse_part(n, text, context, dialect) for n, text in enumerate(expr)))


def _parse_part(n: int, expr: str, context: Context, dialect: str | None) -> Cron | Every | Once:
    try:
        part = _parse_one(expr, context, dialect)
        if isinstance(part, Reboot):
            raise refusal(f"{expr.strip()!r} has no clock times to join; give it its own job")
        return part
    except BadInput as error:
        if error.field == "schedule_expr":
            error.field = f"schedule_expr.{n}"
        raise


def _parse_one(expr: str, context: Context, dialect: str | None) -> Cron | Every | Once | Reboot:
    name, reading = read(expr, context, dialect)
    if not isinstance(reading, Reading):
        return reading
    timezone = reading.timezone or context.timezone
    times = reading.times
    if first_after(times, load_zone(timezone), times.dst, context.now // 1000) is None:
        raise NeverFires(
            f"{expr.strip()!r} has no time in the next 100 years: no calendar date, or only a"
            " daylight-saving gap, has it",
            field="schedule_expr",
        )
    return Cron(reading.expr, timezone, name)


def read(
    expr: str, context: Context, dialect: str | None
) -> tuple[str, Reading | Every | Once | Reboot]:
    """Return the name of the dialect, given or recognised, and what the text means in it.

    Refuses what `parse_schedule` refuses, except times that never come.
    """
    chosen = find_dialect(recognise(expr) if dialect is None else dialect)
    check_text(expr, lines=chosen.lines)
    # The text as sent, so that the positions in a refusal are those the sender sees.
    return chosen.name, chosen.parse(expr, context)
