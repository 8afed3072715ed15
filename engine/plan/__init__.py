"""When jobs fire: schedules, zones, daylight saving, misfires. Pure: no I/O, no clock, no state.

Reading order: schedule (text to value), cron_parse, cron_eval and zones (cron's times), interval,
rules (the times of each kind), plan (what jobs share), proposal (what to do when one is due).
"""

from engine.plan.plan import Misfire, Plan
from engine.plan.proposal import Proposal, Proposer, Skipped, propose
from engine.plan.schedule import Cron, Every, Immediate, Once, Schedule, parse_schedule

__all__ = [
    "Cron",
    "Every",
    "Immediate",
    "Misfire",
    "Once",
    "Plan",
    "Proposal",
    "Proposer",
    "Schedule",
    "Skipped",
    "parse_schedule",
    "propose",
]
