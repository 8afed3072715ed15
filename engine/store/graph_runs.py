"""One time over the graph: what became of it in each job below a root, and running it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter

from engine import codec
from engine.codec import Arrivals, Heard
from engine.depends import Condition, Depends, Join
from engine.errors import Conflict, NotFound, WrongState
from engine.execution import Record, SkipReason, SkipRecord
from engine.names import execution_id, split_execution_id
from engine.scripts import Call
from engine.store import Store
from engine.store.graphs import (
    MOST_BELOW,
    Graph,
    Node,
    Sees,
    all_seen,
    read_descent,
    read_node,
    read_nodes,
)
from engine.store.history import Execution, assemble, read_workers
from engine.store.letters import get_letter

READ_AT_ONCE = 100
"""Jobs that one pipeline reads."""


class RunState(StrEnum):
    """What became of a time in one job: a state of its execution, or one of the last two."""

    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    WAITING_FOR_UPSTREAM = "waiting_for_upstream"
    """It has heard of some of its upstream jobs and not of all, or its gate holds it."""
    NOT_STARTED = "not_started"
    """Nothing is known of it: what is above it has not come so far, or its record is gone."""


LIVE = (RunState.WAITING, RunState.RUNNING, RunState.RETRYING)


@dataclass(frozen=True, slots=True)
class JobRun:
    """What became of one time in one job."""

    job_id: str
    state: RunState
    execution: Execution | None
    """With its attempts, or its reason if it was skipped; None if there is none."""
    heard: Mapping[str, Heard]
    """What it has heard by upstream job, while it waits for more."""
    attempt: int
    """The number of its last attempt that has ended, 0 if there is none."""
    is_gated: bool

    @property
    def is_live(self) -> bool:
        return self.is_gated or self.state in LIVE

    @property
    def outcome(self) -> str | None:
        """How it ended, as dependents are told (lua/lib/outbox.lua); None if it has not."""
        if self.state is RunState.SKIPPED and self.execution and self.execution.skipped:
            has_failed = self.execution.skipped.reason is SkipReason.UPSTREAM_FAILED
            return "upstream_failed" if has_failed else "skipped"
        ends = (RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED)
        return str(self.state) if self.state in ends else None


@dataclass(frozen=True, slots=True)
class Rerun:
    """What runs again: an execution with this attempt, and after it these jobs."""

    attempt: int
    downstream: list[str]


async def read_run(
    store: Store, root: str, nominal_at: int, sees: Sees = all_seen
) -> tuple[Graph, list[JobRun]]:
    """Return a job with those below it that have its times, and what became of one time in each.
    Raises NotFound."""
    graph = await read_descent(store, root, sees=sees)
    runs = await _read_runs(store, _there(graph.nodes), nominal_at)
    return graph, list(runs.values())


async def rerun(
    store: Store,
    execution: str,
    now: int,
    *,
    downstream: bool = False,
    sees: Sees = all_seen,
) -> Rerun:
    """Run an execution again that has ended, with its next attempt number; with `downstream` then
    also what is below it for the same time, each job once, when all that it waits for has come
    anew.

    Raises NotFound, WrongState if any of it is live or was never run, and Conflict for too many
    jobs. Gated jobs below it, and those below them, are left alone: their schedule runs them. So
    are those that who asks does not see.
    """
    job_id, nominal_at = split_execution_id(execution)
    node = await read_node(store, job_id, sees)
    run = (await _read_runs(store, [node], nominal_at))[job_id]
    last = await _last_attempt(store, execution, run)
    below = await _below(store, job_id, sees) if downstream else {}
    runs = await _read_runs(store, below.values(), nominal_at)
    if live := [one for one in [run, *runs.values()] if one.is_live]:
        named = ", ".join(execution_id(one.job_id, nominal_at) for one in live[:5])
        raise WrongState(f"{named}: still live; cancel that, or wait for its end")
    await _reset(store, {job_id, *below}, below, runs, nominal_at, now)
    shard = store.layout.shard_of(job_id)
    await store.scripts.run(
        "rerun_execution",
        [shard.job(job_id), shard.dead, shard.letter(execution), shard.buckets, shard.ledger],
        [job_id, nominal_at, last + 1, now, shard.due_prefix, store.config.ledger_limit],
    )
    return Rerun(last + 1, sorted(below))


async def _last_attempt(store: Store, execution: str, run: JobRun) -> int:
    """Return the number of an execution's last attempt, 0 for one that was skipped."""
    if run.execution is not None:
        return run.attempt
    try:
        return (await get_letter(store, execution)).attempt
    except NotFound:
        raise WrongState(
            f"nothing is known of {execution}: it has not run, or its record has left the history"
        ) from None


async def _below(store: Store, job_id: str, sees: Sees) -> dict[str, Node]:
    """Return the jobs below one that run when it does, for the same times."""
    graph = await read_descent(store, job_id, MOST_BELOW, gated=False, sees=sees)
    if graph.is_cut:
        raise Conflict(f"more than {MOST_BELOW} jobs depend on job {job_id}")
    return {node.job.id: node for node in _there(graph.nodes) if node.job.id != job_id}


async def _reset(
    store: Store,
    again: set[str],
    below: Mapping[str, Node],
    runs: Mapping[str, JobRun],
    nominal_at: int,
    now: int,
) -> None:
    """Have jobs wait anew for one time, the farthest first: so none hears of what runs again before
    it waits for it."""
    depends = {job_id: node.job.depends for job_id, node in below.items() if node.job.depends}
    others = {up.job_id for one in depends.values() for up in one.upstreams} - again
    told = await _read_runs(store, _there(await read_nodes(store, others)), nominal_at)
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(depends, ()))
    for job_id, one in depends.items():
        for up in one.upstreams:
            if up.job_id in depends:
                order.add(up.job_id, job_id)
    order.prepare()
    while order.is_active():
        ready = order.get_ready()
        calls: list[Call] = []
        for job_id in ready:
            shard = store.layout.shard_of(job_id)
            keys = [shard.job(job_id), shard.arrivals(job_id, nominal_at), shard.awaiting]
            heard = _heard(depends[job_id], again, told, runs[job_id])
            following = runs[job_id].attempt + 1
            calls.append(("reset_run", keys, [job_id, nominal_at, following, now, *heard]))
        await store.scripts.run_all(calls)
        order.done(*ready)


def _heard(
    depends: Depends, again: set[str], told: Mapping[str, JobRun], run: JobRun
) -> list[str | bytes | int]:
    """Return what counts as heard of the upstream jobs that do not run again: how they ended, or
    what the job itself has heard, or else that they were as it needs, if it has run since."""
    args: list[str | bytes | int] = []
    for up in depends.upstreams:
        if up.job_id in again:
            continue
        known = run.heard.get(up.job_id)
        outcome = told[up.job_id].outcome if up.job_id in told else None
        if outcome is None and known:
            outcome = known.outcome
        if outcome is None and depends.join is Join.ALL and run.attempt > 0:
            outcome = "dead" if up.condition is Condition.FAILED else "succeeded"
        if outcome is not None:
            sign = "+" if _meets(up.condition, outcome) else "-"
            args += [up.job_id, sign, outcome, known.result if known else b""]
    return args


def _meets(condition: Condition, outcome: str) -> bool:
    match condition:
        case Condition.SUCCEEDED:
            return outcome == "succeeded"
        case Condition.FAILED:
            return outcome == "dead"
        case Condition.FINISHED:
            return True


# What became of it


async def _read_runs(store: Store, nodes: Iterable[Node], nominal_at: int) -> dict[str, JobRun]:
    runs: dict[str, JobRun] = {}
    left = list(nodes)
    while left:
        batch, left = left[:READ_AT_ONCE], left[READ_AT_ONCE:]
        pipe = store.client.pipeline(transaction=False)
        for node in batch:
            shard = store.layout.shard_of(node.job.id)
            pipe.lrange(shard.runs(node.job.id), 0, -1)
            pipe.hgetall(shard.arrivals(node.job.id, nominal_at))
        replies = iter(await pipe.execute())
        for node in batch:
            lines, fields = next(replies), next(replies)
            arrivals = codec.load_arrivals(fields)
            runs[node.job.id] = await _read_run(store, node, nominal_at, lines, arrivals)
    return runs


async def _read_run(
    store: Store, node: Node, nominal_at: int, lines: Sequence[bytes], arrivals: Arrivals
) -> JobRun:
    job = node.job
    live = [execution for execution in node.live if execution.nominal_at == nominal_at]
    is_gated = any(execution.is_gated for execution in live)
    records = [
        record
        for record in map(codec.load_record, lines)
        if (
            record.nominal_at == nominal_at
            if isinstance(record, Record)
            else record.first_at <= nominal_at <= record.last_at
        )
    ]
    ready = store.layout.shard_of(job.id).ready(job.stream)
    workers = await read_workers(store, ready, live)
    # What waits or runs counts, or else the newest record: a time may be skipped, and then run.
    has_begun = bool(live) or nominal_at in job.queued
    is_skip = not has_begun and bool(records) and isinstance(records[0], SkipRecord)
    found = [
        execution
        for execution in assemble(job.id, job.queued, live, records, workers)
        if bool(execution.skipped) is is_skip and (is_skip or execution.nominal_at == nominal_at)
    ]
    execution = found[0] if found else None
    attempt = max((record.attempt for record in records if isinstance(record, Record)), default=0)
    if is_gated or (arrivals.is_open and not has_begun):
        state = RunState.WAITING_FOR_UPSTREAM
    else:
        state = RunState(execution.state) if execution else RunState.NOT_STARTED
    return JobRun(job.id, state, execution, arrivals.heard, attempt, is_gated)


def _there(nodes: Mapping[str, Node | None]) -> list[Node]:
    return [node for node in nodes.values() if node is not None]
