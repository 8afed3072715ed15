"""A periodic task of celery, wherever it was written: its schedule, and how it is called.

Celery's tasks may overlap themselves, so the jobs may too. Its intervals count from the start of
beat, ours from the creation of the job.
"""

from __future__ import annotations

from typing import Any

from engine.errors import BadInput
from engine.importers.celery_source import value_of_text
from engine.importers.entry import Entry
from engine.importers.imported import Fields, kind_of, refuse_unknown

CRONTAB_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
NO_SUN = (
    "a time by the sun ({event}) has no counterpart here; choose a time of day, or start the job"
    " from outside with POST /v1/jobs/{{job_id}}/run"
)

_SENT_BY_CELERY = "how celery sends its messages, of which there are none"
_OPTIONS = {
    "priority": "brokers order by it, each in its own way; set the job's priority",
    "soft_time_limit": "a handler is told of one limit, time_limit",
    "countdown": "a job is due at its time; move the schedule",
    "eta": "a job is due at its time; move the schedule",
    **dict.fromkeys(
        (
            *("exchange", "routing_key", "headers", "serializer", "compression", "retry"),
            *("retry_policy", "ignore_result", "delivery_mode", "mandatory", "immediate"),
            *("link", "link_error", "chain", "chord", "group_id", "reply_to", "task_id"),
        ),
        _SENT_BY_CELERY,
    ),
}
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BY = (
    *("bysetpos", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno", "byhour"),
    *("byminute", "bysecond"),
)


def set_schedule(entry: Entry, field: str, value: Any, timezone: str | None) -> None:
    """Set when the job fires, from what celery calls a schedule: seconds, a call as text, five
    fields, or a mapping. Refuses what is none of them, and the sun."""
    if isinstance(value, str) and value.lstrip().partition("(")[0].strip().isidentifier():
        # A dialect reads crontab's call; of all others the value is taken.
        is_crontab = value.lstrip().startswith("crontab")
        value = value if is_crontab else value_of_text(value)
    if isinstance(value, str):
        entry.schedule(value, "celery", timezone)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        entry.every(value * 1000)
    elif isinstance(value, dict):
        _set_from(entry, Fields(value, field), timezone)
    else:
        raise BadInput(f"{field} must be seconds, a crontab or a mapping, not {kind_of(value)}")


def _set_from(entry: Entry, fields: Fields, timezone: str | None) -> None:
    kind = fields.text("__type__") or fields.text("type")
    if kind == "solar":
        raise BadInput(NO_SUN.format(event=fields.take("event")))
    if kind == "rrule":
        entry.schedule(_rrule(entry, fields), "rrule", timezone)
    elif kind == "interval" or (kind is None and "every" in fields):
        seconds = fields.number("every")
        if seconds is None:
            raise BadInput(f"{fields.path_of('every')} is missing")
        entry.every(seconds * 1000)
        if fields.flag("relative"):
            why = "runs are not rounded to the interval: they count from the job's creation"
            entry.note(fields.path_of("relative"), True, why, "set start_at")
    elif kind in ("crontab", None):
        entry.schedule(crontab_call(fields), "celery", timezone)
    else:
        raise BadInput(f"{fields.path}: a schedule of type {kind[:32]!r} is not known here")
    for path, value in fields.left():
        entry.note(path, value, "not known here, and not carried over")


def crontab_call(fields: Fields) -> str:
    """Return the call that a mapping of crontab's fields stands for. Refuses one with none."""
    given = {name: fields.take(name) for name in CRONTAB_FIELDS}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        raise BadInput(f"{fields.path} names none of {', '.join(CRONTAB_FIELDS)}")
    return f"crontab({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def call(entry: Entry, task: str, args: Any, kwargs: Any, options: Fields) -> None:
    """Set what the job runs: the task's name is the handler, and its arguments are the payload."""
    if not isinstance(args if args is not None else [], list):
        raise BadInput(f"args must be a list, not {kind_of(args)}")
    if not isinstance(kwargs if kwargs is not None else {}, dict):
        raise BadInput(f"kwargs must be a mapping, not {kind_of(kwargs)}")
    entry.body["overlap"] = "allow"
    queue = options.text("queue")
    payload = {"args": args or [], "kwargs": kwargs or {}}
    entry.run(task, payload, queue=queue, field=options.path_of("queue"))
    _expires(entry, options)
    limit_s, target = options.number("time_limit"), entry.body["target"]
    if limit_s is not None and target["type"] == "worker":
        target["timeout_ms"] = max(100, entry.within(options.path_of("time_limit"), limit_s * 1000))
    elif limit_s is not None:
        entry.note(options.path_of("time_limit"), limit_s, "the target has a timeout of its own")
    entry.note_all(options, _OPTIONS)


def _expires(entry: Entry, options: Fields) -> None:
    path, expires = options.path_of("expires"), options.take("expires")
    if isinstance(expires, str) and "(" in expires:
        expires = value_of_text(expires)
    if isinstance(expires, int | float) and not isinstance(expires, bool):
        entry.expires(path, expires)
    elif expires is not None:
        entry.note(path, expires, "one moment for all runs to come", "set end_at")


def _rrule(entry: Entry, fields: Fields) -> str:
    """Return the text of a rule that RedBeat stores as dateutil's arguments."""
    frequency = fields.whole("freq")
    if frequency is None or not 0 <= frequency < len(_FREQUENCIES):
        raise BadInput(f"{fields.path_of('freq')} is 0 (yearly) to 6 (secondly)")
    parts = [f"FREQ={_FREQUENCIES[frequency]}"]
    for name in ("interval", "count"):
        if (number := fields.whole(name)) is not None:
            parts.append(f"{name.upper()}={number}")
    for name in _BY:
        if (value := fields.take(name)) is not None:
            numbers = value if isinstance(value, list) else [value]
            parts.append(f"{name.upper()}={','.join(map(str, numbers))}")
    if (days := fields.take("byweekday")) is not None:
        parts.append(f"BYDAY={','.join(map(_weekday, days if isinstance(days, list) else [days]))}")
    if (first := fields.take("wkst")) is not None:
        parts.append(f"WKST={_weekday(first)}")
    if (until := fields.take("until")) is not None:
        parts.append(f"UNTIL={_compact(entry, fields.path_of('until'), until)}")
    start = fields.take("dtstart")
    for name in ("dtstart_tz", "until_tz"):
        if fields.take(name):
            entry.note(fields.path_of(name), "", "an offset is no zone: the hours are those of UTC")
    begin = "" if start is None else f"DTSTART:{_compact(entry, 'dtstart', start)} "
    return f"{begin}RRULE:{';'.join(parts)}"


def _weekday(day: Any) -> str:
    number = day
    if isinstance(day, dict):
        fields = Fields(day, "schedule.byweekday")
        fields.take("__type__")
        number = fields.whole("wkday")
        refuse_unknown(fields)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 7:
        raise BadInput("a weekday of a rule is 0 (Monday) to 6 (Sunday)")
    return _WEEKDAYS[number]


def _compact(entry: Entry, field: str, value: Any) -> str:
    """Return an instant as iCalendar writes it."""
    at = entry.instant(field, value)
    return f"{at[:19]}Z".replace("-", "").replace(":", "")
