"""A job as people read it: what it does and when; what is as usual is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
from rich.text import Text

from engine.cli.show import cell, print_facts, print_line

Fact = tuple[str, object]

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_USUAL: Mapping[str, object] = {
    "priority": "normal",
    "overlap": "skip",
    "concurrency": 1,
    "roll": "skip",
    "dst_gap": "run_after",
    "dst_overlap": "first",
    "join": "all",
    "jitter": "equal",
}
_DETAILS = (
    "group",
    "tags",
    "priority",
    "start_at",
    "end_at",
    "window_ms",
    "calendars",
    "roll",
    "dst_gap",
    "dst_overlap",
    "overlap",
    "concurrency",
    "max_runs",
    "runs_left",
    "expires_after_ms",
    "pause_after_failures",
    "delete_after_completion",
    "match",
    "join",
    "gate",
    "gate_deadline_ms",
    "failures",
    "live_executions",
    "queued",
)
"""Fields that a card shows as they are, unless they are as usual."""


def print_summary(job: Mapping[str, Any]) -> None:
    """Print what a job does, when, and what comes next; what is odd about its schedule goes to
    standard error."""
    _print(job, [("runs", target_text(job)), *_summary(job)])


def print_card(job: Mapping[str, Any]) -> None:
    """Print all there is to know of a job that is not as usual."""
    _print(job, [("runs", target_text(job, whole=True)), *_summary(job), *_details(job)])


def _print(job: Mapping[str, Any], facts: list[Fact]) -> None:
    print_line(Text("  ").join([cell(job["job_id"]), cell(job["state"])]))
    print_facts((f"  {name}", value) for name, value in facts)
    for warning in job.get("warnings") or ():
        click.echo(f"warning: {warning['message']} [{warning['code']}]", err=True)


def _summary(job: Mapping[str, Any]) -> list[Fact]:
    facts: list[Fact] = [("when", when_text(job))]
    if job.get("next_run_at"):
        facts.append(("next", job["next_run_at"]))
    if job.get("execution_id"):
        facts.append(("execution", job["execution_id"]))
    if catch_up := job.get("catch_up"):
        facts += _catch_up(catch_up)
    if note := job.get("pause_note") if job["state"] == "paused" else None:
        why = f": {note['note']}" if note["note"] else ""
        facts.append(("paused", f"{note['at']} by {note['by']}{why}"))
    return facts


def _details(job: Mapping[str, Any]) -> Iterator[Fact]:
    yield ("queue", job["queue"])
    target = dict(job["target"])
    if not target.get("respond_async"):
        target.pop("heartbeat_ms", None)
    shown = {name: target[name] for name in target if name not in ("type", "url", "command")}
    for name, value in {**{name: job.get(name) for name in _DETAILS}, **shown}.items():
        if value and value != _USUAL.get(name):
            yield _fact(name, value)
    if job["payload"] is not None:
        yield ("payload", _plain(job["payload"]))
    yield ("retry", _retry(job["retry"]))
    late = job["misfire"]
    yield ("misfire", f"{late['policy']}, {span(late['grace_ms'])} of grace")
    yield ("created", job["created_at"])
    yield ("version", job["version"])


def _fact(name: str, value: Any) -> Fact:
    """Return a field as people read it: a duration with its unit."""
    is_span = name.endswith("_ms")
    return name.removesuffix("_ms").replace("_", " "), span(value) if is_span else _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(str(_plain(item)) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain(item)}" for name, item in value.items()) or "{}"
    return {True: "yes", False: "no"}.get(value) if isinstance(value, bool) else value


def target_text(job: Mapping[str, Any], *, whole: bool = False) -> str:
    """Return what a job runs; a URL's query, which may hold a secret, only if it is to be whole."""
    target: dict[str, str] = job["target"]
    url, has_query, query = target.get("url", "").partition("?")
    rest = f"?{query}" if whole else "?…"
    return url + rest * bool(has_query) or target.get("command") or f"queue {job['queue']}"


def schedule_text(expr: str | list[str] | None) -> str | None:
    """Return a schedule on one line."""
    return ", ".join(expr) if isinstance(expr, list) else expr


def when_text(job: Mapping[str, Any]) -> str:
    """Return when a job runs: its schedule, in words where there are any, and what it waits for."""
    upstream = [
        one["job"] if one["condition"] == "succeeded" else f"{one['job']} ({one['condition']})"
        for one in job.get("depends_on") or ()
    ]
    after = f"after {', '.join(upstream)}" if upstream else ""
    expr = schedule_text(job["schedule_expr"])
    if expr is None:
        return after or "at once, and once"
    said = job.get("description")
    zone = job["timezone"]
    text = f"{said} ({expr}, {zone})" if said else f"{expr} ({zone})"
    return f"{text}, {after}" if after else text


def _catch_up(found: Mapping[str, Any]) -> Iterator[Fact]:
    yield ("makes up for", _plain(found["run"]) or "nothing")
    if skipped := found["skipped"]:
        more = "" if skipped["count_is_exact"] else " or more"
        yield ("skips", f"{skipped['count']}{more} until {skipped['last_scheduled_for']}")


def _retry(retry: Mapping[str, Any]) -> str:
    """Return a retry policy in a line."""
    if retry["max_attempts"] == 1:
        return "none: one attempt"
    waits = f"{retry['backoff']} from {span(retry['base_ms'])} to {span(retry['max_ms'])}"
    if retry["backoff"] == "list":
        waits = f"after {', '.join(map(span, retry['waits_ms']))}"
    parts = [f"{retry['max_attempts']} attempts", waits]
    if retry["jitter"] != _USUAL["jitter"]:
        parts.append(f"jitter {retry['jitter']}")
    if retry["max_elapsed_ms"] is not None:
        parts.append(f"none later than {span(retry['max_elapsed_ms'])}")
    if retry["deadline_ms"] is not None:
        parts.append(f"over after {span(retry['deadline_ms'])}")
    if retry["on"]:
        parts.append(f"on {_plain(retry['on'])}")
    return ", ".join(parts)


def span(ms: int) -> str:
    """Return a duration in the largest unit that divides it: `90s`, `1h`."""
    if ms == 0:
        return "0s"
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}" if len(unit) == 1 else f"{ms // size} {unit}"
