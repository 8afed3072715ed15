"""When a trigger of Quartz fires, and what becomes of the times that it missed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from engine.errors import BadInput
from engine.importers.entry import Entry
from engine.importers.imported import Fields

UNITS_MS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000}
FREQUENCIES = {"DAY": "DAILY", "WEEK": "WEEKLY", "MONTH": "MONTHLY", "YEAR": "YEARLY"}
FOR_EVER = -1

_SMART = "SMART_POLICY"
_MISFIRES = {
    "DO_NOTHING": "skip",
    "FIRE_ONCE_NOW": "fire_once",
    "FIRE_NOW": "fire_once",
    "IGNORE_MISFIRE_POLICY": "fire_all",
    "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT": "fire_once",
    "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT": "fire_once",
    "RESCHEDULE_NEXT_WITH_EXISTING_COUNT": "skip",
    "RESCHEDULE_NEXT_WITH_REMAINING_COUNT": "skip",
}


def set_schedule(entry: Entry, kind: str, trigger: Fields) -> None:
    """Set the schedule and its bounds. Refuses a kind that is not known, and numbers that are
    none."""
    if kind == "cron":
        expr = trigger.word("cron-expression")
        entry.schedule(expr, "quartz", trigger.text("time-zone"))
        entry.bounds(_start(entry, trigger), _end(entry, trigger))
    elif kind == "simple":
        _simple(entry, trigger)
    elif kind == "calendar-interval":
        _calendar_interval(entry, trigger)
    else:
        raise BadInput(f"a trigger is cron, simple or calendar-interval, not {kind[:32]!r}")


def set_misfire(entry: Entry, kind: str, trigger: Fields) -> None:
    """Set the policy that does what the trigger's instruction did; its default is Quartz's own."""
    instruction = trigger.text("misfire-instruction") or _SMART
    word = re.sub(r"^(MisfireInstruction\.)?(\w+\.)?(MISFIRE_INSTRUCTION_)?", "", instruction)
    if word == _SMART or word == "SmartPolicy":
        # Quartz's choice: a simple trigger that goes on for ever waits for its next time.
        is_endless = kind == "simple" and "max_runs" not in entry.body
        policy = "skip" if is_endless and entry.body["dialect"] == "interval" else "fire_once"
    elif word in _MISFIRES:
        policy = _MISFIRES[word]
    else:
        raise BadInput(f"misfire-instruction {instruction[:64]!r} is not known")
    if word.startswith("RESCHEDULE_NOW"):
        why = "the times that follow keep their phase, and do not begin anew"
        entry.note(trigger.path_of("misfire-instruction"), instruction, why)
    entry.body["misfire"] = {"policy": policy}


def _simple(entry: Entry, trigger: Fields) -> None:
    count, interval_ms = _whole(trigger, "repeat-count", 0), _whole(trigger, "repeat-interval", 0)
    start, end = _start(entry, trigger), _end(entry, trigger)
    if count == 0:
        if start is None:
            raise BadInput(
                "it fires once, when the scheduler starts, which is no schedule; give a start-time"
            )
        entry.schedule(start, "rfc3339")
        if end is not None:
            entry.note(trigger.path_of("end-time"), end, "a schedule of one time has no bounds")
        return
    if count < FOR_EVER:
        raise BadInput("repeat-count is -1 (for ever), 0 or more")
    entry.every(interval_ms)
    entry.bounds(start, end)
    if count != FOR_EVER:
        entry.body["max_runs"] = count + 1
        path = trigger.path_of("repeat-count")
        entry.note(path, count, "runs are counted from the import on")


def _calendar_interval(entry: Entry, trigger: Fields) -> None:
    number, unit = _whole(trigger, "repeat-interval", 1), trigger.word("repeat-interval-unit")
    start, end = _start(entry, trigger), _end(entry, trigger)
    zone = trigger.text("time-zone")
    if unit in UNITS_MS:
        entry.every(number * UNITS_MS[unit])
    elif unit in FREQUENCIES:
        if start is None:
            why = "it would count from the start of the scheduler, and so it does from the import"
            entry.note(trigger.path_of("start-time"), "", why)
        begin = entry.zone(zone).local(int(_moment(entry, start).timestamp()))
        rule = f"DTSTART:{begin:%Y%m%dT%H%M%S} RRULE:FREQ={FREQUENCIES[unit]};INTERVAL={number}"
        entry.schedule(rule, "rrule", zone)
        if unit in ("MONTH", "YEAR") and begin.day > 28:
            why = "a month that is too short is left out; Quartz takes its last day"
            entry.note(trigger.path_of("repeat-interval-unit"), unit, why, "use cron with L")
    else:
        raise BadInput(f"repeat-interval-unit is one of {', '.join((*UNITS_MS, *FREQUENCIES))}")
    entry.bounds(start, end)


def _moment(entry: Entry, start: str | None) -> datetime:
    if start is not None:
        return datetime.fromisoformat(start)
    return datetime.fromtimestamp(entry.options.now // 1000, UTC)


def _start(entry: Entry, trigger: Fields) -> str | None:
    name = "start-time-seconds-in-future"
    if (text := trigger.text("start-time")) is not None:
        return entry.instant(trigger.path_of("start-time"), text)
    if name not in trigger:
        return None
    seconds = _whole(trigger, name, 0)
    at = _moment(entry, None) + timedelta(seconds=seconds)
    entry.note(trigger.path_of(name), seconds, "counted from the import, and not from each start")
    return entry.instant(name, at.isoformat())


def _end(entry: Entry, trigger: Fields) -> str | None:
    text = trigger.text("end-time")
    return None if text is None else entry.instant(trigger.path_of("end-time"), text)


def _whole(trigger: Fields, name: str, default: int) -> int:
    text = trigger.text(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,15}", text):
        raise BadInput(f"{trigger.path_of(name)}: {text[:32]!r} is not a whole number")
    return int(text)
