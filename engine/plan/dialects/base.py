"""What a dialect is: a name, and a function from text to the times that the text means.

A *reading* is concrete. What a dialect spreads over its jobs (`H` of Jenkins, `~` of Vixie) has
become a number by then, taken from a hash of the job's id, and a zone that stood in the text has
been taken out of it: `expr` is what a plan stores, in the same dialect, and reads again for less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import BadInput
from engine.plan.cron_eval import LocalTimes
from engine.plan.cron_parse import refusal
from engine.plan.schedule import Every, Once, Reboot
from engine.plan.zones import load_zone


@dataclass(frozen=True)
class Context:
    """What else than the text a meaning may depend on."""

    timezone: str = "UTC"
    now: int = 0
    """UTC ms: what `at(…)` must be after."""
    job_id: str | None = None
    """Whose hash spreads `H` and `~`; without it they are refused."""


@dataclass(frozen=True)
class Reading:
    """Local times, and the text that a plan keeps of them."""

    times: LocalTimes
    expr: str
    """Concrete: reading it again needs no job id. Words are separated by one space."""
    timezone: str | None = None
    """The zone that the text named (`CRON_TZ=`), which overrules that of the request."""


@dataclass(frozen=True)
class Dialect:
    name: str
    summary: str
    """One line for people who choose between dialects."""
    parse: Callable[[str, Context], Reading | Every | Once | Reboot]
    """Returns what a text means. Refuses with BadExpression(field="schedule_expr") what the dialect
    cannot read, naming its field, the text, the position and what would be right; with NeverFires
    a single time that has passed."""
    lines: bool = False
    """Whether a text may have several lines."""


def zone_in_text(name: str, position: int) -> None:
    """Refuse a zone that stands at `position` of an expression, if there is none of that name."""
    try:
        load_zone(name)
    except BadInput as error:
        raise refusal(f"timezone: {name!r} at character {position}: {error.message}") from error
