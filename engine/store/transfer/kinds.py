"""What becomes of each kind of key when a deployment moves: one table for keys.py.

    moved      its values are records of the export, of the kind that is named
    rebuilt    it follows from records of other kinds
    left       it is not taken along, for the reason that stands there

A key of no kind that is named here was written by a newer release: the export refuses to begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.keys import PREFIX


class Fate(StrEnum):
    MOVED = "moved"
    REBUILT = "rebuilt"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Kind:
    """What becomes of a kind of key: as what it moves, from what it is rebuilt, or why it stays."""

    fate: Fate
    how: str
    by_processes: bool = False
    """Whether processes write such keys that were merely started: they make no deployment in use
    (of ready streams, while they are empty)."""


def _moved(record: str, *, by_processes: bool = False) -> Kind:
    return Kind(Fate.MOVED, record, by_processes)


def _rebuilt(how: str, *, by_processes: bool = False) -> Kind:
    return Kind(Fate.REBUILT, how, by_processes)


def _left(why: str) -> Kind:
    return Kind(Fate.LEFT, why)


DEPLOYMENT: dict[str, Kind] = {
    "layout": _left("the target has its own number of shards"),
    "frozen": _left("it says that this deployment is stopped"),
    "schedulers": _left("it lists processes of this server"),
    "processes": _left("it lists processes of this server"),
    "calendars": _moved("hash"),
    "zones": _moved("hash", by_processes=True),
    "queues": _moved("hash"),
    "hosts": _moved("hash"),
    "pushback": _moved("hash"),
    "graph": _moved("hash"),
    "keys": _moved("hash"),
    "keys:used": _moved("hash"),
    "secrets": _moved("hash"),
    "signing": _moved("string", by_processes=True),
    "request": _left("answers to requests that are sent again: they are kept for a day at most"),
}
"""Keys of no shard, by what follows their prefix, or by its first word."""

SHARD: dict[str, Kind] = {
    "job": _moved("job"),
    "runs": _moved("job"),
    "plans": _moved("job"),
    "jobs": _rebuilt("from jobs: the list of all, and those by group and tag"),
    "due": _rebuilt("from jobs: their next times, and executions that wait"),
    "buckets": _rebuilt("from jobs"),
    "backfills": _rebuilt("from jobs: those whose backfill goes on"),
    "inputs": _moved("inputs"),
    "dependents": _moved("dependents"),
    "arrivals": _moved("arrivals"),
    "awaiting": _moved("arrivals"),
    "ready": _moved("entry", by_processes=True),
    "dead": _moved("letter"),
    "letter": _moved("letter"),
    "effects": _moved("effects"),
    "outbox": _moved("outbox"),
    "ledger": _moved("ledger"),
    "gates": _moved("gates"),
    "ran_at": _left("it keeps the runs of new jobs apart from those of deleted ones, for a minute"),
    "lease": _left("schedulers take new ones"),
    "fence": _left("tokens begin anew with the target's clock; nobody has an old one there"),
    "zones": _rebuilt("from zones: jobs of each may come from every shard", by_processes=True),
    "frozen": _left("it says that this shard is stopped"),
    "starts": _left("the target starts anew; this one is of no shard, but has the schedulers' tag"),
}
"""Keys of a shard, by the word that follows their tag."""


def kind_of(key: str) -> Kind | None:
    """Return what becomes of a key, None if this release does not know it."""
    rest = key.removeprefix(f"{PREFIX}:")
    if rest.startswith("{"):
        return SHARD.get(rest.partition("}:")[2].partition(":")[0])
    return DEPLOYMENT.get(rest) or DEPLOYMENT.get(rest.partition(":")[0])


def records() -> set[str]:
    """Return the kinds of records of an export, without its first and last line."""
    return {k.how for k in (*DEPLOYMENT.values(), *SHARD.values()) if k.fate is Fate.MOVED}
