"""The worker, stepped: what it takes it runs once, and what comes of it is recorded once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import redis.exceptions as driver
from fleet import (
    BUSY,
    REFUSED,
    ScriptedRunner,
    Wire,
    age,
    already_set,
    eventually,
    hire,
    history,
    outcomes,
    settle,
    with_config,
)
from seeding import AT_ONCE, NOW, QUEUE, fire, job_ids, registration

from engine import reading
from engine.backoff import Retry
from engine.clock import ManualClock
from engine.errors import Unusable
from engine.execution import Delivery, Outcome, Record, SkipReason, SkipRecord
from engine.keys import GROUP, waiting_bucket
from engine.model import HttpTarget, Rules
from engine.reading import Reader
from engine.reporting import REPORT_MOST
from engine.scripts import Call, Scripts
from engine.store import Store
from engine.store.executions import Stream, ensure_groups, reclaim_executions
from engine.store.jobs import create_jobs, get_job
from engine.store.limits import (
    LONGEST_PUSHBACK_MS,
    Pushback,
    forget_pushback,
    note_pushback,
    read_limits,
)
from engine.targets import Attempted
from engine.worker import Worker

CLOCK = ManualClock(NOW + 700)
"""Nothing here moves it."""


@pytest.fixture
def runner() -> ScriptedRunner:
    return ScriptedRunner()


async def offer(store: Store, *ids: str, queue: str = QUEUE, retry: Retry | None = None) -> None:
    """Put an execution of each job into the queue."""
    await ensure_groups(store, queue)
    found = [registration(name, AT_ONCE, next_run_at=None, run_at=NOW, queue=queue) for name in ids]
    retry = retry or Retry()
    await create_jobs(store, [replace(r, job=replace(r.job, retry=retry)) for r in found])


async def begin(worker: Worker) -> int:
    """Take what is there, and let the runner see it; return how many."""
    taken = await worker.fetch(block=False)
    await asyncio.sleep(0)
    return taken


async def work(worker: Worker) -> int:
    """Take what is there, let it end, and report; return how many outcomes."""
    await worker.fetch(block=False)
    await settle(worker)
    return await worker.report()


async def consumers(store: Store, queue: str = QUEUE) -> set[str]:
    """Return the consumers that the groups of a queue know."""
    found = [await store.client.xinfo_consumers(s.ready(queue), GROUP) for s in store.layout.shards]
    return {row["name"].decode() for rows in found for row in rows}


async def waiting(store: Store, queue: str = QUEUE) -> int:
    """Return how many entries a queue has."""
    return sum([await store.client.xlen(shard.ready(queue)) for shard in store.layout.shards])


# How attempts end


async def test_a_success_is_recorded_and_the_entry_is_gone(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, "job-0")
    worker, _ = hire(store, CLOCK, runner)
    assert await work(worker) == 1
    record = Record(NOW, Outcome.SUCCEEDED, 1, 1, "w1", NOW + 700, 0, 200)
    assert await history(store, "job-0") == [record]
    assert await waiting(store) == 0
    assert (await get_job(store, "job-0")).live == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (BUSY, "HTTP 503"),
        (Attempted(False, error="timeout"), "timeout"),
        (RuntimeError("secret"), "internal: RuntimeError"),
    ],
)
async def test_a_failure_is_tried_again_after_the_backoff(
    store: Store, runner: ScriptedRunner, answer: Attempted | Exception, error: str
) -> None:
    await offer(store, "job-0", retry=Retry(base_ms=250, jitter="none"))
    runner.answers["job-0"] = [answer]
    worker, _ = hire(store, CLOCK, runner)
    await work(worker)
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert (record.outcome, record.error) == (Outcome.FAILED, error)
    [live] = (await get_job(store, "job-0")).live
    assert (live.attempt, live.due_at) == (2, NOW + 700 + 250)


@pytest.mark.parametrize(("answer", "most"), [(REFUSED, 9), (BUSY, 1), (RuntimeError(), 1)])
async def test_a_final_answer_and_a_last_attempt_are_dead(
    store: Store, runner: ScriptedRunner, answer: Attempted | Exception, most: int
) -> None:
    await offer(store, "job-0", retry=Retry(max_attempts=most))
    runner.answers["job-0"] = [answer]
    worker, _ = hire(store, CLOCK, runner)
    await work(worker)
    assert await outcomes(store, "job-0") == [(1, Outcome.DEAD)]
    assert await store.client.zcard(store.layout.shard_of("job-0").dead) == 1


async def offer_expiring(store: Store, expires_after_ms: int) -> None:
    """Put an execution of job-0 into the queue that is dropped unless it starts in time."""
    await ensure_groups(store, QUEUE)
    rules = Rules(expires_after_ms=expires_after_ms)
    await create_jobs(
        store, [registration("job-0", AT_ONCE, next_run_at=None, run_at=NOW, rules=rules)]
    )


@pytest.mark.parametrize(("expires_after_ms", "runs"), [(700, 0), (701, 1)])
async def test_an_execution_that_comes_too_late_is_not_started(
    store: Store, runner: ScriptedRunner, expires_after_ms: int, runs: int
) -> None:
    await offer_expiring(store, expires_after_ms)
    worker, _ = hire(store, CLOCK, runner)
    assert await work(worker) == 1
    assert len(runner.seen) == runs
    if not runs:
        assert await history(store, "job-0") == [SkipRecord(NOW, NOW, 1, SkipReason.EXPIRED)]
        assert await waiting(store) == 0
        assert (await get_job(store, "job-0")).live == []


async def test_an_execution_that_may_have_been_started_elsewhere_does_not_expire(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer_expiring(store, 700)
    runner.gate.clear()
    early, _ = hire(store, ManualClock(NOW), runner, "w1")
    assert await begin(early) == 1
    await age(store, runner.seen)
    runner.gate.set()
    heir, reclaimer = hire(store, CLOCK, runner, "w2")
    await reclaimer.step()
    await settle(heir)
    assert await heir.report() == 1
    assert await outcomes(store, "job-0") == [(1, Outcome.SUCCEEDED)]
    await settle(early)


async def test_a_runner_that_cannot_be_made_is_a_failure_too(store: Store) -> None:
    def make() -> ScriptedRunner:
        raise OSError("no sockets left")

    await offer(store, "job-0")
    worker = Worker(store, CLOCK, {QUEUE: 1}, make, concurrency=100, consumer="w1")
    await work(worker)
    assert await outcomes(store, "job-0") == [(1, Outcome.FAILED)]


async def test_what_a_command_gave_stands_in_the_record(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, "job-0", "job-1")
    runner.answers["job-0"] = [Attempted(True, exit_status=0, output="done")]
    runner.answers["job-1"] = [Attempted(False, error="exit: 3", exit_status=3, output="odd")]
    worker, _ = hire(store, CLOCK, runner)
    await work(worker)
    [good], [bad] = [await history(store, name) for name in ("job-0", "job-1")]
    assert isinstance(good, Record)
    assert isinstance(bad, Record)
    assert (good.exit_status, good.output) == (0, "done")
    assert (bad.exit_status, bad.output, bad.error) == (3, "odd", "exit: 3")


# Targets that respond later


async def offer_async(store: Store, retry: Retry | None = None) -> None:
    """Put an execution into the queue whose target may respond later."""
    await ensure_groups(store, QUEUE)
    made = registration("job-0", AT_ONCE, next_run_at=None, run_at=NOW)
    target = HttpTarget("http://a.test/", respond_async=True, heartbeat_ms=5_000)
    job = replace(made.job, target=target, retry=retry or Retry(base_ms=0, jitter="none"))
    await create_jobs(store, [replace(made, job=job)])


@pytest.mark.parametrize(
    ("retry", "lapses_after_ms"), [(Retry(), 5_000), (Retry(deadline_ms=3_000), 3_000)]
)
async def test_a_target_that_goes_on_by_itself_has_until_its_next_sign_of_life(
    store: Store, runner: ScriptedRunner, retry: Retry, lapses_after_ms: int
) -> None:
    await offer_async(store, retry)
    runner.answers["job-0"] = [Attempted(True, 202, accepted=True)]
    worker, _ = hire(store, CLOCK, runner)
    assert await work(worker) == 1
    [live] = (await get_job(store, "job-0")).live
    assert live.is_accepted
    assert live.due_at == NOW + 700 + lapses_after_ms
    assert await waiting(store) == 0
    assert worker.free == 100


async def test_a_target_that_fell_silent_has_failed_and_is_not_called(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer_async(store)
    runner.answers["job-0"] = [Attempted(True, 202, accepted=True)]
    worker, _ = hire(store, CLOCK, runner)
    await work(worker)
    await fire(store, store.layout.shard_of("job-0"), NOW + 700 + 5_000)
    assert await work(worker) == 1
    assert len(runner.seen) == 1
    [failed] = [r for r in await history(store, "job-0") if isinstance(r, Record)]
    assert (failed.outcome, failed.attempt) == (Outcome.FAILED, 1)
    assert failed.error == "timeout: the target fell silent"
    await fire(store, store.layout.shard_of("job-0"), NOW + 60_000)
    assert await work(worker) == 1
    assert [delivery.attempt for delivery in runner.seen] == [1, 2]


# Hosts that ask for less


async def offer_calls(store: Store, *urls: str) -> None:
    """Put an execution of job-0, job-1, … into the queue for each URL."""
    await ensure_groups(store, QUEUE)
    for n, url in enumerate(urls):
        made = registration(f"job-{n}", AT_ONCE, next_run_at=None, run_at=NOW)
        job = replace(made.job, target=HttpTarget(url))
        await create_jobs(store, [replace(made, job=job)])


@pytest.mark.parametrize(
    ("status", "asked_ms", "wait_ms"),
    [(429, 30_000, 30_000), (503, None, 0), (503, 10**9, LONGEST_PUSHBACK_MS)],
)
async def test_that_a_host_asked_for_less_is_noted_once_a_second(
    store: Store, runner: ScriptedRunner, status: int, asked_ms: int | None, wait_ms: int
) -> None:
    clock = ManualClock(NOW + 700)
    answer = Attempted(False, status, "HTTP", retry_after_ms=asked_ms)
    runner.answers = {"job-0": [answer], "job-1": [answer], "job-2": [answer]}
    worker, _ = hire(store, clock, runner)
    await offer_calls(store, "http://A.test:81/x?y", "http://a.test:81/z")
    await work(worker)
    noted = (await read_limits(store)).pushbacks
    assert noted == {"a.test:81": Pushback(NOW + 700, wait_ms)}
    await forget_pushback(store, "a.test:81")
    clock.advance(999)
    worker.take(replace(runner.seen[0], entry_id="1-1", execution_id=f"job-2@{NOW}"))
    await settle(worker)
    assert (await read_limits(store)).pushbacks == {}
    await worker.report()


@pytest.mark.parametrize("status", [200, 404, 500, 502])
async def test_other_answers_are_no_pushback(
    store: Store, runner: ScriptedRunner, status: int
) -> None:
    await offer_calls(store, "http://a.test/")
    runner.answers["job-0"] = [Attempted(status == 200, status, retry_after_ms=5_000)]
    worker, _ = hire(store, CLOCK, runner)
    await work(worker)
    assert (await read_limits(store)).pushbacks == {}


async def test_what_is_for_a_host_that_wants_nothing_yet_goes_back_to_its_gate(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer_calls(store, "http://a.test/1", "http://b.test/2", "https://A.TEST/3")
    await note_pushback(store, "a.test", Pushback(NOW, 60_000))
    worker, _ = hire(store, CLOCK, runner)
    assert await work(worker) == 1
    assert [delivery.job_id for delivery in runner.seen] == ["job-1"]
    for name in ("job-0", "job-2"):
        [live] = (await get_job(store, name)).live
        assert (live.attempt, live.due_at) == (1, NOW)
        shard = store.layout.shard_of(name)
        bucket = shard.due(waiting_bucket("h/a.test", QUEUE))
        assert await store.client.zscore(bucket, f"{name}@{NOW}") == NOW
    assert worker.free == 100


async def test_a_host_whose_wait_is_over_is_called(store: Store, runner: ScriptedRunner) -> None:
    await offer_calls(store, "http://a.test/1")
    await note_pushback(store, "a.test", Pushback(NOW, 700))
    worker, _ = hire(store, CLOCK, runner)
    assert await work(worker) == 1
    assert len(runner.seen) == 1


# Slots


async def test_what_came_beyond_the_slots_is_handed_back(
    store: Store, runner: ScriptedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More may come between a look at the streams and the read that blocks for it."""

    async def look(store: Store, streams: Sequence[Stream]) -> dict[Stream, int]:
        return dict.fromkeys(streams, 0)

    monkeypatch.setattr(reading, "count_unread", look)
    worker, _ = hire(store, CLOCK, runner, concurrency=1)
    await worker.fetch(block=False)  # makes the groups
    await offer(store, *(f"job-{n}" for n in range(8)))
    assert await work(worker) == 1
    monkeypatch.undo()
    for _ in range(7):
        assert await work(worker) == 1
    assert sorted(delivery.job_id for delivery in runner.seen) == [f"job-{n}" for n in range(8)]
    assert {delivery.deliveries for delivery in runner.seen} == {1}


async def test_a_stop_hands_back_what_comes_after_it(store: Store, runner: ScriptedRunner) -> None:
    stop = asyncio.Event()

    class Late(Reader):
        async def read(self, free: int, *, block: bool) -> list[Delivery]:
            found = await super().read(free, block=block)
            if found:
                stop.set()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return found

    worker, _ = hire(store, CLOCK, runner)
    worker._reader = Late(store, {QUEUE: 1}, "w1")
    await offer(store, "job-0")
    await worker.run(stop)
    assert runner.seen == []
    heir, _ = hire(store, CLOCK, runner, "w2")
    assert await work(heir) == 1
    assert [delivery.deliveries for delivery in runner.seen] == [1]


async def test_it_never_runs_more_than_its_slots(store: Store, runner: ScriptedRunner) -> None:
    await offer(store, *job_ids(store, 3), *(f"more-{n}" for n in range(20)))
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner, concurrency=3)
    taken = [await begin(worker) for _ in range(5)]
    assert taken == [3, 0, 0, 0, 0]
    runner.gate.set()
    await settle(worker)
    assert await worker.fetch(block=False) == 0, "an outcome that is not reported keeps its slot"
    assert await worker.report() == 3
    assert await worker.fetch(block=False) == 3
    await settle(worker)
    await worker.report()
    assert runner.most == 3


async def test_with_one_slot_it_goes_from_shard_to_shard(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, *(f"job-{n}" for n in range(40)))
    worker, _ = hire(store, CLOCK, runner, concurrency=1)
    for _ in store.layout.shards:
        assert await work(worker) == 1
    assert {delivery.shard for delivery in runner.seen} == {0, 1, 2, 3}


async def test_a_slot_can_be_waited_for(store: Store, runner: ScriptedRunner) -> None:
    await offer(store, "job-0")
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner, concurrency=1)
    assert await worker.wait_for_slot()
    await worker.fetch(block=False)
    hoping = asyncio.create_task(worker.wait_for_slot())
    await asyncio.sleep(0)
    assert not hoping.done()
    runner.gate.set()
    await settle(worker)
    assert not hoping.done()
    await worker.report()
    assert await hoping


# Leases


async def test_an_execution_whose_lease_was_lost_is_aborted_and_not_recorded(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, "job-0", "job-1")
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner)
    await begin(worker)
    [lost] = [delivery for delivery in runner.seen if delivery.job_id == "job-0"]
    await age(store, [lost])
    shard = store.layout.shards[lost.shard]
    found = await reclaim_executions(store, QUEUE, shard, "w2", NOW, room=1)

    assert await worker.beat() == 1

    runner.gate.set()
    await settle(worker)
    assert runner.cut_off == [lost.execution_id]
    assert await worker.report() == 1
    assert await outcomes(store, "job-0") == []
    assert await outcomes(store, "job-1") == [(1, Outcome.SUCCEEDED)]
    other, _ = hire(store, CLOCK, ScriptedRunner(), "w2")
    other.take(found.deliveries[0])
    await settle(other)
    await other.report()
    assert await outcomes(store, "job-0") == [(1, Outcome.SUCCEEDED)]


async def test_a_beat_extends_what_runs_and_what_waits_to_be_reported(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, "job-0", "job-1")
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner)
    await begin(worker)
    runner.gate.set()
    await settle(worker)
    await offer(store, "job-2")
    runner.gate.clear()
    await begin(worker)
    await age(store, runner.seen)

    assert await worker.beat() == 0

    for shard in store.layout.shards:
        found = await reclaim_executions(store, QUEUE, shard, "w2", NOW)
        assert found.deliveries == []
    runner.gate.set()
    await settle(worker)
    assert await worker.report() == 3


async def test_taking_over_what_runs_here_already_goes_on_under_the_new_proof(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, "job-0")
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner)
    await begin(worker)
    await age(store, runner.seen)
    [old] = runner.seen
    found = await reclaim_executions(store, QUEUE, store.layout.shards[old.shard], "w1", NOW)
    [again] = found.deliveries
    worker.take(again)
    assert await worker.beat() == 0
    runner.gate.set()
    await settle(worker)
    await worker.report()
    assert len(runner.seen) == 1
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert (record.outcome, record.deliveries) == (Outcome.SUCCEEDED, 2)


async def test_an_outcome_goes_out_again_if_its_entry_was_taken_over_here_on_the_way(
    store: Store, runner: ScriptedRunner
) -> None:
    class Slow(Scripts):
        """Has the report arrive after this worker has taken its own entry over."""

        async def run_many(self, calls: Sequence[Call]) -> list[Any]:
            if calls[0][0] != "complete_executions" or len(runner.seen) > 1:
                return await super().run_many(calls)
            await age(store, runner.seen)
            [old] = runner.seen
            shard = store.layout.shards[old.shard]
            found = await reclaim_executions(store, QUEUE, shard, "w1", NOW)
            replies = await super().run_many(calls)
            worker.take(found.deliveries[0])
            return replies

    await offer(store, "job-0")
    worker, _ = hire(replace(store, scripts=Slow(store.client)), CLOCK, runner)
    await work(worker)
    assert worker.free == 99
    runner.seen.append(runner.seen[0])
    assert await worker.report() == 1
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert (record.outcome, record.deliveries) == (Outcome.SUCCEEDED, 2)
    assert worker.free == 100


async def test_what_was_lost_and_comes_back_is_run_anew(
    store: Store, runner: ScriptedRunner
) -> None:
    await offer(store, "job-0")
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner)
    await begin(worker)
    await age(store, runner.seen)
    shard = store.layout.shards[runner.seen[0].shard]
    taken = await reclaim_executions(store, QUEUE, shard, "w2", NOW)
    [held] = worker._holding.all()
    assert held.lose(held.delivery)  # as the thread notes it; the task has not been told yet
    await age(store, taken.deliveries)
    [again] = (await reclaim_executions(store, QUEUE, shard, "w1", NOW)).deliveries
    worker.take(again)
    worker._abort(held)
    await eventually(lambda: is_cut_off(runner))
    assert worker.free == 99, "the end of the lost one frees no slot of the new one"
    runner.gate.set()
    await settle(worker)
    assert await worker.report() == 1
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert record.deliveries == 3
    assert worker.free == 100


async def is_cut_off(runner: ScriptedRunner) -> bool:
    return bool(runner.cut_off)


async def test_an_outcome_that_comes_too_late_is_told_and_changes_nothing(
    store: Store, runner: ScriptedRunner, caplog: pytest.LogCaptureFixture
) -> None:
    await offer(store, "job-0")
    worker, _ = hire(store, CLOCK, runner)
    await worker.fetch(block=False)
    await settle(worker)
    await age(store, runner.seen)
    shard = store.layout.shards[runner.seen[0].shard]
    found = await reclaim_executions(store, QUEUE, shard, "w2", NOW)

    assert await worker.report() == 1

    assert "its lease was lost before its end was recorded" in caplog.text
    assert await history(store, "job-0") == []
    other, _ = hire(store, CLOCK, ScriptedRunner({"job-0": [BUSY]}), "w2")
    other.take(found.deliveries[0])
    await settle(other)
    await other.report()
    assert await outcomes(store, "job-0") == [(1, Outcome.FAILED)]


# Reports


async def test_outcomes_stay_while_the_server_is_away_and_are_recorded_once_after(
    store: Store, runner: ScriptedRunner
) -> None:
    wire = Wire(store)
    await offer(store, *(f"job-{n}" for n in range(10)))
    worker, _ = hire(replace(store, scripts=wire), CLOCK, runner)
    await worker.fetch(block=False)
    await settle(worker)
    wire.down = True
    for _ in range(3):
        with pytest.raises(driver.ConnectionError):
            await worker.report()
    wire.down, wire.deaf = False, True
    with pytest.raises(driver.ConnectionError):
        await worker.report()
    wire.deaf = False
    assert await worker.report() == 10
    assert await worker.report() == 0
    for n in range(10):
        assert await outcomes(store, f"job-{n}") == [(1, Outcome.SUCCEEDED)]


async def test_a_report_is_bounded(store: Store, runner: ScriptedRunner) -> None:
    count = REPORT_MOST + 20
    await offer(store, *(f"job-{n}" for n in range(count)))
    worker, _ = hire(store, CLOCK, runner, concurrency=4 * count)
    assert await worker.fetch(block=False) == count
    await settle(worker)
    assert [await worker.report() for _ in range(3)] == [REPORT_MOST, 20, 0]


# Running for ever


async def test_it_works_until_it_is_stopped_and_takes_its_name_off(
    store: Store, runner: ScriptedRunner
) -> None:
    worker, _ = hire(store, CLOCK, runner, queues=("default", "quick"))
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    await offer(store, *(f"job-{n}" for n in range(10)))
    await offer(store, *(f"quick-{n}" for n in range(10)), queue="quick")

    async def is_done() -> bool:
        return await waiting(store) + await waiting(store, "quick") == 0

    await eventually(is_done)
    assert "w1" in await consumers(store) & await consumers(store, "quick")
    stop.set()
    await running
    assert len(runner.seen) == 20
    assert await consumers(store) == await consumers(store, "quick") == set()
    assert runner.is_closed


async def test_it_is_not_stuck_when_all_slots_are_taken(
    store: Store, runner: ScriptedRunner
) -> None:
    worker, _ = hire(store, CLOCK, runner, concurrency=2)
    stop = asyncio.Event()
    await offer(store, *(f"job-{n}" for n in range(30)))
    running = asyncio.create_task(worker.run(stop))

    async def is_done() -> bool:
        return await waiting(store) == 0

    await eventually(is_done)
    stop.set()
    await running
    assert len(runner.seen) == 30


async def test_a_stop_lets_what_runs_end_and_takes_nothing_new(
    store: Store, runner: ScriptedRunner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner)
    stop = asyncio.Event()
    await offer(store, "job-0")
    running = asyncio.create_task(worker.run(stop))
    await eventually(lambda: has_seen(runner, 1))
    stop.set()
    await eventually(lambda: is_logged(caplog, "waiting for 1 executions"))
    await offer(store, "job-1")
    runner.gate.set()
    await running
    assert await outcomes(store, "job-0") == [(1, Outcome.SUCCEEDED)]
    assert len(runner.seen) == 1
    assert await waiting(store) == 1
    assert await consumers(store) == set()


async def has_seen(runner: ScriptedRunner, count: int) -> bool:
    return len(runner.seen) == count


async def is_logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_what_the_deadline_cuts_off_is_taken_over_by_another_worker(
    store: Store, runner: ScriptedRunner
) -> None:
    hasty = with_config(store, shutdown_ms=0)
    runner.gate.clear()
    worker, _ = hire(hasty, CLOCK, runner)
    await offer(store, "job-0")
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    await eventually(lambda: has_seen(runner, 1))
    stop.set()
    await running
    assert runner.cut_off == [f"job-0@{NOW}"]
    assert await history(store, "job-0") == []
    assert await consumers(store) == {"w1"}

    await age(store, runner.seen)
    heir = ScriptedRunner()
    other, reclaimer = hire(store, CLOCK, heir, "w2")
    await reclaimer.step()
    await settle(other)
    await other.report()
    assert [(delivery.attempt, delivery.deliveries) for delivery in heir.seen] == [(1, 2)]
    assert await outcomes(store, "job-0") == [(1, Outcome.SUCCEEDED)]


async def test_it_stops_although_the_server_is_away_and_says_what_is_lost(
    store: Store, runner: ScriptedRunner, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(store)
    worker, _ = hire(replace(store, scripts=wire), CLOCK, runner)
    await offer(store, "job-0")
    await worker.fetch(block=False)
    await settle(worker)
    wire.down = True
    await worker.run(already_set())
    assert "1 outcomes could not be reported" in caplog.text
    assert runner.is_closed
    wire.down = False
    await worker.report()  # what a test may do: the outcome has not gone anywhere
    assert await outcomes(store, "job-0") == [(1, Outcome.SUCCEEDED)]


async def test_an_unfit_server_stops_it_with_the_reason_and_leaves_nothing_behind(
    store: Store, runner: ScriptedRunner
) -> None:
    is_unfit = asyncio.Event()

    class Unfit(Scripts):
        async def run_many(self, calls: Sequence[Call]) -> list[Any]:
            if is_unfit.is_set():
                raise Unusable("the server evicts")
            return await super().run_many(calls)

    runner.gate.clear()
    fragile = replace(store, scripts=Unfit(store.client))
    worker, _ = hire(fragile, CLOCK, runner)
    await offer(store, "job-0")
    before = asyncio.all_tasks()
    running = asyncio.create_task(worker.run(asyncio.Event()))
    await eventually(lambda: has_seen(runner, 1))
    is_unfit.set()
    late = await offer_expired(store)
    with pytest.raises(Unusable, match="evicts"):
        await running
    assert runner.cut_off == [f"job-0@{NOW}"]
    assert runner.is_closed
    assert asyncio.all_tasks() == before
    assert await history(store, late) == []


async def offer_expired(store: Store) -> str:
    """Put an execution into the queue of which a worker has something to report at once."""
    rules = Rules(expires_after_ms=1)
    late = registration("job-late", AT_ONCE, next_run_at=None, run_at=NOW, rules=rules)
    await create_jobs(store, [late])
    return late.job.id


async def test_a_worker_that_is_cancelled_leaves_nothing_behind(
    store: Store, runner: ScriptedRunner
) -> None:
    runner.gate.clear()
    worker, _ = hire(store, CLOCK, runner)
    await offer(store, "job-0")
    before = asyncio.all_tasks()
    running = asyncio.create_task(worker.run(asyncio.Event()))
    await eventually(lambda: has_seen(runner, 1))
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert runner.is_closed
    assert asyncio.all_tasks() == before
