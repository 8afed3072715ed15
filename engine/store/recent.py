"""Executions over all jobs: what is live, and what ended lately.

No key lists them all, so they are found where they leave traces, each looked at in bounded time:

1. the ready streams of the queues that are known: the first and the last 100 of each, per shard;
2. the due index: attempts among the first 100 members of the 16 earliest buckets of each shard;
3. the newest 1,000 dead letters;
4. the end of the ledger: about 5,000 events.

That is the horizon. What lies beyond it is found by its id, or by its job. Whatever is found is
then read from its job, and shown as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engine import codec
from engine.errors import BadInput
from engine.execution import ExecutionState, LiveExecution, Record, SkipRecord
from engine.names import execution_id, split_execution_id, split_stream, streams_of
from engine.scripts import Call
from engine.store import Store
from engine.store.history import Execution, assemble, read_consumers
from engine.store.ledger import LedgerEvent
from engine.store.letter_search import LetterFilter, find_letters, read_lines
from engine.store.tail import read_tails

ENDS = 100
BUCKETS = 16
MEMBERS = 100
LETTERS = 1_000
EVENTS = 5_000
STREAMS_AT_ONCE = 100
JOBS_AT_ONCE = 50
RECORDS = 200
"""Records of a job that are read to tell how its executions went."""
LOOK_LIMIT = 2_000
"""Executions that one call looks at; it then says where to go on, whatever it found."""

_LIVE = frozenset({ExecutionState.WAITING, ExecutionState.RUNNING, ExecutionState.RETRYING})

Place = tuple[int, int, str]
"""Where an execution stands in the list: its nominal time, whether it was skipped, its job."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which executions are meant: those for which all holds that is given."""

    states: frozenset[ExecutionState] = frozenset(ExecutionState)
    from_at: int | None = None
    """With `until_at`, the nominal time: the first is included, the last is not."""
    until_at: int | None = None
    queue: str | None = None
    sees: Callable[[str | None], bool] = field(default=lambda group: True)
    """Whether jobs of a group are meant; None is for jobs of no group."""

    def takes_time(self, at: int) -> bool:
        return (self.from_at is None or at >= self.from_at) and (
            self.until_at is None or at < self.until_at
        )


async def find_recent(
    store: Store,
    asked: Asked,
    queues: Sequence[str],
    *,
    after: Place | None = None,
    limit: int = 100,
) -> tuple[list[Execution], Place | None]:
    """Return executions within the horizon, newest nominal time first, and the place to go on
    after, None at the end. A page may be short and still have a next one. `queues` are those that
    are known."""
    traces = await _traces(store, asked, queues)
    places = sorted(
        (p for p in traces if asked.takes_time(p[0]) and (after is None or p < after)), reverse=True
    )
    found: list[Execution] = []
    looked = places[:LOOK_LIMIT]
    for at in range(0, len(looked), JOBS_AT_ONCE):
        batch = looked[at : at + JOBS_AT_ONCE]
        standing = await _read(store, asked, batch, traces)
        for place in batch:
            execution = standing.get(place)
            if execution is not None and execution.state in asked.states:
                found.append(execution)
                if len(found) == limit:
                    return found, place if place != places[-1] else None
    return found, looked[-1] if len(places) > len(looked) else None


async def _traces(
    store: Store, asked: Asked, queues: Sequence[str]
) -> dict[Place, SkipRecord | None]:
    """Return the places of what is found of the states that are asked for."""
    found: dict[Place, SkipRecord | None] = {}
    if asked.states & _LIVE:
        found |= _places(await _names_in_streams(store, queues))
        found |= _places(await _names_in_index(store))
    if ExecutionState.DEAD in asked.states:
        letters = await find_letters(store, LetterFilter(), limit=LETTERS)
        found |= _places(execution_id for _, execution_id in letters.places)
    for tail in await read_tails(store, 0, most=EVENTS):
        for event in tail.events:
            _add_event(found, event)
    return found


def _places(names: Iterable[str]) -> dict[Place, SkipRecord | None]:
    places = (split_execution_id(name) for name in names)
    return {(nominal_at, 0, job_id): None for job_id, nominal_at in places}


def _add_event(found: dict[Place, SkipRecord | None], event: LedgerEvent) -> None:
    if isinstance(event.record, SkipRecord):
        job_id = event.subject.partition("@")[0]
        found.setdefault((event.record.first_at, 1, job_id), event.record)
        return
    try:
        job_id, nominal_at = split_execution_id(event.subject)
    except BadInput:
        return  # it happened to a job
    found[nominal_at, 0, job_id] = None


async def _names_in_streams(store: Store, queues: Sequence[str]) -> list[str]:
    streams = [stream for queue in queues for stream in streams_of(queue)]
    calls: list[Call] = [
        ("list_ready", [shard.ready(s) for s in streams[at : at + STREAMS_AT_ONCE]], [ENDS])
        for shard in store.layout.shards
        for at in range(0, len(streams), STREAMS_AT_ONCE)
    ]
    replies = await store.scripts.run_all(calls)
    return [name.decode() for reply in replies for names in reply for name in names]


async def _names_in_index(store: Store) -> list[str]:
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.zrange(shard.buckets, 0, BUCKETS - 1)
    buckets = await pipe.execute()
    pipe = store.client.pipeline(transaction=False)
    for shard, names in zip(store.layout.shards, buckets, strict=True):
        for name in names:
            pipe.zrange(shard.due(name.decode()), 0, MEMBERS - 1)
    members = [member.decode() for found in await pipe.execute() for member in found]
    return [member for member in members if "|" not in member]


async def _read(
    store: Store, asked: Asked, batch: Sequence[Place], traces: dict[Place, SkipRecord | None]
) -> dict[Place, Execution]:
    """Return what stands at the places now, of jobs that are meant."""
    times: dict[str, list[int]] = {}
    for nominal_at, _, job_id in batch:
        times.setdefault(job_id, []).append(nominal_at)
    pipe = store.client.pipeline(transaction=False)
    for job_id, wanted in times.items():
        shard = store.layout.shard_of(job_id)
        pipe.hmget(shard.job(job_id), "head", "group", "queued", *(f"x:{at}" for at in wanted))
        pipe.lrange(shard.runs(job_id), 0, RECORDS - 1)
    replies = iter(await pipe.execute())
    found: dict[Place, Execution] = {}
    jobs: dict[str, _Job] = {}
    for job_id, wanted in times.items():
        (head, group, queued, *fields), lines = next(replies), next(replies)
        if head is None or not asked.sees(group.decode() if group else None):
            continue
        stream = codec.load_head(head).stream
        if asked.queue in (None, split_stream(stream)[0]):
            live = {b"x:%d" % at: f for at, f in zip(wanted, fields, strict=True) if f}
            jobs[job_id] = _Job(
                stream,
                {int(at) for at in (queued or b"").split()} & {*wanted},
                codec.load_live(live),
                [r for r in map(codec.load_record, lines) if _is_of(r, wanted)],
            )
    workers = await _workers(store, jobs)
    for job_id, job in jobs.items():
        for execution in assemble(job_id, job.queued, job.live, job.records, workers[job_id]):
            found[execution.nominal_at, 0, job_id] = execution
    for place in batch:
        nominal_at, _, job_id = place
        if (skipped := traces[place]) and job_id in jobs:
            state = ExecutionState.SKIPPED
            found[place] = Execution(job_id, nominal_at, state, 0, [], skipped=skipped)
    missing = [place for place in batch if place not in found and traces[place] is None]
    return found | await _read_letters(store, asked, missing)


async def _read_letters(
    store: Store, asked: Asked, missing: Sequence[Place]
) -> dict[Place, Execution]:
    """Return what letters tell of executions that their jobs know no more. A letter names no
    group: it is there for who sees jobs of none."""
    if not missing or not asked.sees(None):
        return {}
    ids = [execution_id(job_id, nominal_at) for nominal_at, _, job_id in missing]
    found = {}
    for line in await read_lines(store, [(0, letter_of) for letter_of in ids]):
        job_id, nominal_at = split_execution_id(line.execution_id)
        if asked.queue in (None, split_stream(line.stream)[0]):
            attempts = [line.last] if line.last else []
            found[nominal_at, 0, job_id] = Execution(
                job_id, nominal_at, ExecutionState.DEAD, line.attempt, attempts
            )
    return found


@dataclass(frozen=True, slots=True)
class _Job:
    """What is read of a job to tell how some of its executions stand."""

    stream: str
    queued: set[int]
    live: list[LiveExecution]
    records: list[Record | SkipRecord]


def _is_of(record: Record | SkipRecord, wanted: Sequence[int]) -> bool:
    return isinstance(record, Record) and record.nominal_at in wanted


async def _workers(store: Store, jobs: dict[str, _Job]) -> dict[str, dict[int, str]]:
    """Return by job and nominal time who holds the executions that are offered."""
    offered = [
        (job_id, one.nominal_at, store.layout.shard_of(job_id).ready(job.stream), one.entry_id)
        for job_id, job in jobs.items()
        for one in job.live
        if one.entry_id
    ]
    holders = await read_consumers(store, [(ready, entry) for _, _, ready, entry in offered])
    workers: dict[str, dict[int, str]] = {job_id: {} for job_id in jobs}
    for (job_id, nominal_at, _, _), holder in zip(offered, holders, strict=True):
        if holder:
            workers[job_id][nominal_at] = holder
    return workers
