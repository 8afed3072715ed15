"""When jobs fire: schedules, zones, daylight saving, misfires. Pure: no I/O, no clock, no state.

Reading order: schedule (what there is), parse and dialects (text to schedule), cron_parse (what
dialects share), cron_eval and zones (local times to instants), rules (the times of each kind),
calendar and roll (which of them are open, and where the others go), plan (what jobs share),
proposal (what to do when one is due), starts (jobs without clock times), edition (what new rules of
zones do to a next time).
"""

from engine.plan.calendar import NO_CALENDARS, Calendar, Calendars
from engine.plan.catch_up import CatchUp, catch_up
from engine.plan.cron_eval import Gap
from engine.plan.cron_eval import Overlap as DstOverlap
from engine.plan.dialects import DIALECTS, recognise
from engine.plan.dialects.rfc3339 import parse_instant
from engine.plan.edition import Edition, Moved, replan
from engine.plan.moment import Moment, moment_of
from engine.plan.parse import parse_schedule
from engine.plan.plan import Misfire, MisfirePolicy, Plan
from engine.plan.proposal import Proposal, Proposer, Skipped, propose
from engine.plan.roll import Roll
from engine.plan.schedule import Cron, Every, Immediate, Joined, Once, Reboot, Schedule
from engine.plan.starts import catch_up_starts, clock_time, propose_start, wait_from
from engine.plan.zones import DATABASE as ZONE_DATABASE
from engine.plan.zones import read_rules

DIALECT_SUMMARIES = {name: dialect.summary for name, dialect in DIALECTS.items()}
"""Name of a dialect → one line about it."""

__all__ = [
    "DIALECT_SUMMARIES",
    "NO_CALENDARS",
    "ZONE_DATABASE",
    "Calendar",
    "Calendars",
    "CatchUp",
    "Cron",
    "DstOverlap",
    "Edition",
    "Every",
    "Gap",
    "Immediate",
    "Joined",
    "Misfire",
    "MisfirePolicy",
    "Moment",
    "Moved",
    "Once",
    "Plan",
    "Proposal",
    "Proposer",
    "Reboot",
    "Roll",
    "Schedule",
    "Skipped",
    "catch_up",
    "catch_up_starts",
    "clock_time",
    "moment_of",
    "parse_instant",
    "parse_schedule",
    "propose",
    "propose_start",
    "read_rules",
    "recognise",
    "replan",
    "wait_from",
]
