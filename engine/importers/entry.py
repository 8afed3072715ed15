"""One entry of a source on its way to a draft: the parts that all importers share.

An entry collects the body of a job and the notes about it. What it ends with has been asked of the
engine: a draft whose schedule, zone or bounds are wrong does not come to be, its entry is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from engine.backoff import LONGEST_SPAN_MS, MOST_ATTEMPTS
from engine.errors import BadInput
from engine.importers.imported import Draft, Fields, Imported, Note, Options, Refusal, shown
from engine.importers.naming import handler_of, job_id_of, queue_of
from engine.plan import Misfire, parse_instant, parse_schedule
from engine.plan.zones import Zone, load_zone
from engine.registration import Timing, plan_times

LONGEST_LIFE_MS = 366 * 86_400_000
MOST_HANDLER_CHARS = 128
NO_DESCRIPTION = "jobs have no description"
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_YEAR_10000_S = 253_402_300_800

T = TypeVar("T")


class Entry:
    """Collects one job. `name` is what the source calls it; its id is made from that."""

    def __init__(self, name: str, options: Options) -> None:
        self.options = options
        self.job_id = job_id_of(name, options.prefix)
        self.body: dict[str, Any] = {"job_id": self.job_id}
        self.paused = False
        self._runs = ""
        self._notes: list[Note] = []
        if self.job_id != options.prefix + name:
            self.note("name", name, f"not spelled as job ids are: it is {self.job_id}")

    def note(self, field: str, value: object, why: str, advice: str = "") -> None:
        self._notes.append(Note(field, shown(field, value), why, advice))

    def note_all(self, fields: Fields, reasons: Mapping[str, str]) -> None:
        """Note each of these fields that is there, with its reason."""
        for name, why in reasons.items():
            if (value := fields.take(name)) not in (None, "", [], {}):
                why, _, advice = why.partition("; ")
                self.note(fields.path_of(name), value, why, advice)

    def schedule(self, expr: str, dialect: str, timezone: str | None = None) -> None:
        """Set when it fires. A zone that is not given is the reader's. Refuses what the dialect
        refuses, with its reason."""
        zone = timezone or self.options.timezone
        parse_schedule(expr, zone, now=self.options.now, dialect=dialect, job_id=self.job_id)
        self.body |= {"schedule_expr": expr, "dialect": dialect, "timezone": zone}

    def every(self, interval_ms: float) -> None:
        """Fire at a fixed distance. Refuses less than a second and more than a century."""
        self.schedule(f"every {_spelled(round(interval_ms))}", "interval")

    def bounds(self, start: str | None, end: str | None) -> None:
        """Set the first and the last time that may fire, RFC 3339 each."""
        self.body |= {
            name: at for name, at in (("start_at", start), ("end_at", end)) if at is not None
        }

    def take_bounds(self, fields: Fields, first: str, last: str, why_none: str | None) -> None:
        """Set the bounds that two fields of the source name; with `why_none` note them instead."""
        found = {}
        for name in (first, last):
            value = fields.take(name)
            if value is not None and why_none:
                self.note(name, value, why_none)
            elif value is not None:
                found[name] = self.instant(name, value)
        self.bounds(found.get(first), found.get(last))

    def retry(self, field: str, attempts: int, **more: int) -> None:
        """Set how often it is tried in all; the rest of the policy is `more`."""
        bounded = min(max(attempts, 1), MOST_ATTEMPTS)
        if bounded != attempts:
            self.note(field, attempts - 1, f"{MOST_ATTEMPTS} attempts are the most")
        self.body["retry"] = {"max_attempts": bounded, **more}

    def within(self, field: str, value_ms: float, most_ms: int = LONGEST_SPAN_MS) -> int:
        """Return a duration within 1 ms and `most_ms`, with a note if it had to be cut. Refuses
        what is not above 0."""
        if value_ms <= 0:
            raise BadInput(f"{field}: a duration is more than 0")
        if value_ms > most_ms:
            self.note(field, value_ms, f"longer than the longest: it is {most_ms} ms")
        return max(1, min(round(value_ms), most_ms))

    def expires(self, field: str, seconds: float) -> None:
        """Drop an execution that has not started so long after its time."""
        self.body["expires_after_ms"] = self.within(field, seconds * 1000, LONGEST_LIFE_MS)

    def group(self, field: str, name: str | None) -> None:
        """Set whose job it is, unless that was said for all."""
        if name:
            self._set_name("group", field, name, self.options.group)
        elif self.options.group:
            self.body["group"] = self.options.group

    def run(
        self, what: str, payload: Any, *, queue: str | None = None, field: str = "queue"
    ) -> None:
        """Set what is run: the target that the reader named for it, or the reader's URL, or a
        worker's handler of this name.

        A URL is shared by many jobs, so it is sent {"handler", "payload"}.
        """
        options, self._runs = self.options, what
        if what in options.targets:
            self.body |= {"target": dict(options.targets[what]), "payload": payload}
        elif options.url is not None:
            self.body |= {
                "target": {"type": "http", "url": options.url},
                "payload": {"handler": what, "payload": payload},
            }
        else:
            handler = handler_of(what, MOST_HANDLER_CHARS)
            if handler != what:
                self.note("handler", what, f"longer than a handler's name: it is {handler}")
            self.body |= {"target": {"type": "worker", "handler": handler}, "payload": payload}
        if not queue:
            return
        if self.body["target"].get("type") == "worker":
            self._set_name("queue", field, queue, None)
        else:
            self.note(field, queue, "calls and commands wait in the queue of their kind")

    def _set_name(self, ours: str, field: str, name: str, instead: str | None) -> None:
        self.body[ours] = spelled = instead or queue_of(name)
        if spelled != name:
            why = "--group stands in its place" if instead else f"not spelled as {ours}s are"
            self.note(field, name, why, f"it is {spelled}")

    def instant(self, field: str, value: object, timezone: str | None = None) -> str:
        """Return a time as RFC 3339: from text, in `timezone` or the reader's where it names none,
        or from seconds since 1970. Refuses what is neither."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not 0 <= value < _YEAR_10000_S:
                raise BadInput(f"{field}: {value} is no time in seconds since 1970")
            return _rfc_3339(datetime.fromtimestamp(value, UTC))
        try:
            at = datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise BadInput(f"{field}: {str(value)[:64]!r} is not a time of ISO 8601") from None
        if at.tzinfo is None:
            at = _in_zone(at, self.zone(timezone or self.body.get("timezone")))
        return _rfc_3339(at)

    def zone(self, timezone: str | None = None) -> Zone:
        """Return a zone, or else the reader's. Refuses one that is not known."""
        return load_zone(timezone or self.options.timezone)

    def draft(self, place: str, *sources: Fields, known: Mapping[str, str] | None = None) -> Draft:
        """Return the job, with a note about each field of `sources` that nobody asked for; `known`
        gives reasons by path. Refuses what the engine would not take."""
        for source in sources:
            for path, value in source.left():
                why = (known or {}).get(path, "not known here, and not carried over")
                why, _, advice = why.partition("; ")
                self.note(path, value, why, advice)
        if self.options.group and "group" not in self.body:
            self.body["group"] = self.options.group
        self._check()
        return Draft(place, self.body, self._runs, self.paused, tuple(self._notes))

    def _check(self) -> None:
        body = self.body
        if body.get("payload") is None:
            body.pop("payload", None)
        try:
            json.dumps(body, allow_nan=False)
        except (TypeError, ValueError):
            raise BadInput("what it is called with holds a value that JSON has not") from None
        start, end = (
            body.get(name) and parse_instant(body[name]) for name in ("start_at", "end_at")
        )
        timing = Timing(
            schedule_expr=body["schedule_expr"],
            timezone=body["timezone"],
            dialect=body["dialect"],
            start_at=start,
            end_at=end,
            window_ms=body.get("window_ms", 0),
            misfire=Misfire(**body.get("misfire", {})),
        )
        plan_times(timing, self.job_id, self.options.now)


def read_each(
    entries: Iterable[tuple[str, T]], read: Callable[[str, T], Draft], *notes: Note
) -> Imported:
    """Return what each (place, entry) comes to: a draft, or a refusal with the reason."""
    drafts, refusals = [], []
    for place, entry in entries:
        try:
            drafts.append(read(place, entry))
        except BadInput as wrong:
            refusals.append(Refusal(place, wrong.message))
    return Imported(tuple(drafts), tuple(refusals), notes)


def _spelled(interval_ms: int) -> str:
    """Return `1h30m` for 5400000."""
    text = ""
    for unit, length_ms in _UNITS_MS.items():
        count, interval_ms = divmod(interval_ms, length_ms)
        text += f"{count}{unit}" if count else ""
    return text or "0ms"


def _in_zone(at: datetime, zone: Zone) -> datetime:
    """Return a time of the clock on the wall with its offset: the first of two, and in a gap, where
    there is none, the time by the offset before it."""
    as_utc = at.replace(tzinfo=UTC)
    before = zone.local(int(as_utc.timestamp()) - 86_400).utcoffset() or timedelta()
    return as_utc - (zone.local(int((as_utc - before).timestamp())).utcoffset() or timedelta())


def _rfc_3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
