"""Python handlers, on a real server: what they are told, what becomes of how they end, and side
effects that happen once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fleet import age, eventually, history, keep, outcomes, settle
from linking import dependent, depends
from seeding import AT_ONCE, NOW, QUEUE, registration

from engine import Context, Fail, ThreadContext, TryAgain
from engine import Worker as Handlers
from engine.backoff import Retry
from engine.clock import ManualClock
from engine.config import Config
from engine.errors import BadInput, StaleDelivery
from engine.execution import Delivery, Outcome, Record
from engine.holding import Holding
from engine.model import MAX_RESULT_BYTES, HttpTarget, Target, WorkerTarget
from engine.relay import Relay
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.dependencies import link_job
from engine.store.effects import MOST_RESULT_BYTES
from engine.store.executions import ensure_groups, reclaim_executions
from engine.store.jobs import create_jobs, get_job
from engine.targets.handler import Handler, HandlerRunner
from engine.targets.threads import Threads
from engine.worker import Worker

FIXED = Retry(backoff="fixed", base_ms=1_000, jitter="none")


@dataclass
class Crew:
    """A worker with handlers, to step."""

    worker: Worker
    runner: HandlerRunner
    clock: ManualClock
    seen: list[Any] = field(default_factory=list)

    async def work(self) -> None:
        """Take what is there, let it end, and report."""
        await self.worker.fetch(block=False)
        await eventually(self._is_idle)
        await self.worker.report()

    async def _is_idle(self) -> bool:
        return self.worker.running == 0


def crew(
    store: Store,
    *,
    consumer: str = "w1",
    default: Handler | None = None,
    concurrency: int = 100,
    **handlers: Handler,
) -> Crew:
    clock, holding = ManualClock(NOW + 700), Holding()
    runner = HandlerRunner(store, clock, holding, handlers, default)
    worker = Worker(
        store,
        clock,
        {QUEUE: 1},
        lambda: runner,
        concurrency=concurrency,
        consumer=consumer,
        holding=holding,
        lingering=runner.lingering,
    )
    return Crew(worker, runner, clock)


async def offer(
    store: Store,
    handler: str | None = "go",
    *,
    job_id: str = "job-0",
    retry: Retry = FIXED,
    timeout_ms: int | None = None,
    target: Target | None = None,
) -> None:
    """Put an execution of a job into the queue."""
    await ensure_groups(store, QUEUE)
    made = registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW)
    target = target or WorkerTarget(handler, timeout_ms)
    await create_jobs(store, [replace(made, job=replace(made.job, target=target, retry=retry))])


async def take_over(store: Store, held: Delivery, consumer: str = "w2") -> Delivery:
    """Return the delivery of an entry whose worker had fallen silent."""
    await age(store, [held])
    shard = store.layout.shards[held.shard]
    found = await reclaim_executions(store, held.queue, shard, consumer, NOW)
    [delivery] = found.deliveries
    return delivery


async def only_record(store: Store, job_id: str = "job-0") -> Record:
    [record] = await history(store, job_id)
    assert isinstance(record, Record)
    return record


# What a handler is told


async def test_a_coroutine_is_told_what_it_runs(store: Store) -> None:
    seen: dict[str, Any] = {}

    async def go(ctx: Context) -> None:
        seen.update({name: getattr(ctx, name) for name in FACTS})

    await offer(store, timeout_ms=5_000)
    await crew(store, go=go).work()
    assert seen == FACTS
    assert (await only_record(store)).outcome is Outcome.SUCCEEDED


FACTS = {
    "payload": {"n": 1},
    "execution_id": f"job-0@{NOW}",
    "job_id": "job-0",
    "nominal_at": NOW,
    "scheduled_for": datetime.fromtimestamp(NOW / 1000, UTC),
    "attempt": 1,
    "deliveries": 1,
    "deadline": NOW + 700 + 5_000,
    "cancelled": False,
}


async def test_a_function_runs_in_a_thread_and_is_told_the_same(store: Store) -> None:
    seen: dict[str, Any] = {}

    def go(ctx: ThreadContext) -> None:
        seen.update({name: getattr(ctx, name) for name in FACTS})
        ctx.heartbeat()
        seen["thread"] = threading.current_thread()

    await offer(store, timeout_ms=5_000)
    await crew(store, go=go).work()
    assert seen.pop("thread") is not threading.main_thread()
    assert seen == FACTS
    assert (await only_record(store)).outcome is Outcome.SUCCEEDED


async def test_without_a_timeout_there_is_no_deadline_and_a_retry_policy_may_set_one(
    store: Store,
) -> None:
    seen: dict[str, int | None] = {}

    async def go(ctx: Context) -> None:
        seen[ctx.job_id] = ctx.deadline

    await offer(store, job_id="free")
    await offer(store, job_id="bound", retry=Retry(deadline_ms=9_000))
    await crew(store, go=go).work()
    assert seen == {"free": None, "bound": NOW + 700 + 9_000}


async def test_what_a_handler_returns_goes_to_the_jobs_that_depend_on_its_own(
    store: Store,
) -> None:
    seen: dict[str, Any] = {}

    async def go(ctx: Context) -> dict[str, int]:
        return {"rows": 3}

    def also(ctx: ThreadContext) -> str:
        return "b"

    async def last(ctx: Context) -> None:
        seen.update(ctx.upstream)

    clock = ManualClock(NOW + 800)
    await offer(store, "go", job_id="a")
    await offer(store, "also", job_id="b")
    made = dependent("last", depends("a b"))
    await link_job(store, "last", depends("a b"))
    await create_jobs(store, [replace(made, job=replace(made.job, target=WorkerTarget("last")))])
    men = crew(store, go=go, also=also, last=last)
    await men.work()
    keeper, _ = keep(store, clock)
    await keeper.step()
    await Relay(store, clock, keeper).step()
    await men.work()
    assert seen == {"a": {"rows": 3}, "b": "b"}


@pytest.mark.parametrize(
    ("gave", "words"),
    [("x" * MAX_RESULT_BYTES, "16384 bytes at the most"), ({1, 2}, "must be JSON")],
)
async def test_a_result_that_cannot_be_kept_fails_for_good(
    store: Store, gave: object, words: str
) -> None:
    async def go(ctx: Context) -> object:
        return gave

    await offer(store)
    await crew(store, go=go).work()
    record = await only_record(store)
    assert record.outcome is Outcome.DEAD
    assert record.error is not None
    assert record.error.startswith("result: ")
    assert words in record.error


# Which handler


async def test_an_execution_without_a_name_goes_to_the_default_handler(store: Store) -> None:
    seen = []

    async def rest(ctx: Context) -> None:
        seen.append(ctx.job_id)

    await offer(store, None)
    await crew(store, default=rest, rest=rest).work()
    assert seen == ["job-0"]


@pytest.mark.parametrize(
    ("name", "words"), [("odd", 'no handler "odd"'), (None, "no default handler")]
)
async def test_a_handler_that_is_not_here_may_be_at_the_next_worker(
    store: Store, name: str | None, words: str
) -> None:
    async def b(ctx: Context) -> None: ...

    async def a(ctx: Context) -> None: ...

    await offer(store, name)
    await crew(store, b=b, a=a).work()
    record = await only_record(store)
    assert record.outcome is Outcome.FAILED
    assert record.error == f"handler: this worker has {words}; it has a, b"


async def test_a_target_of_another_type_is_refused_for_good(store: Store) -> None:
    await offer(store, target=HttpTarget("http://127.0.0.1:9/"))
    await crew(store).work()
    record = await only_record(store)
    assert record.outcome is Outcome.DEAD
    assert record.error == "handler: this worker runs worker targets only"


def test_a_name_that_is_taken_and_a_generator_are_refused() -> None:
    worker = Handlers(config=Config())

    @worker.handler(default=True)
    def go(ctx: ThreadContext) -> None: ...

    with pytest.raises(BadInput, match="'go' already"):
        worker.handler()(go)
    with pytest.raises(BadInput, match="'other' already"):
        worker.handler("other", default=True)(go)
    with pytest.raises(BadInput, match="generator"):
        worker.handler("many")(lambda ctx: (yield))


# How it ends


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(
    ("error", "outcome", "text", "wait_ms"),
    [
        (Fail("no such customer"), Outcome.DEAD, "no such customer", None),
        (TryAgain("later", after_ms=90_000), Outcome.FAILED, "later", 90_000),
        (TryAgain(), Outcome.FAILED, "asked to be tried again", 1_000),
        (ValueError("x" * 9_000), Outcome.FAILED, "ValueError: " + "x" * 2_036, 1_000),
        (KeyError(), Outcome.FAILED, "KeyError", 1_000),
        (SystemExit(3), Outcome.FAILED, "SystemExit: 3", 1_000),
        (StopIteration("odd"), Outcome.FAILED, "RuntimeError: ", 1_000),
        (ValueError("\ud800"), Outcome.FAILED, "ValueError: ?", 1_000),
    ],
)
async def test_what_a_handler_raises_decides(
    store: Store,
    in_thread: bool,
    error: BaseException,
    outcome: Outcome,
    text: str,
    wait_ms: int | None,
) -> None:
    def fail(ctx: object) -> None:
        raise error

    async def fail_later(ctx: object) -> None:
        raise error

    await offer(store)
    await crew(store, go=fail if in_thread else fail_later).work()
    record = await only_record(store)
    assert record.outcome is outcome
    assert (record.error or "").startswith(text)
    assert len(record.error or "") <= 2_048
    live = (await get_job(store, "job-0")).live
    assert [e.due_at for e in live] == ([NOW + 700 + wait_ms] if wait_ms else [])


async def test_a_handler_whose_own_call_was_cancelled_has_failed(store: Store) -> None:
    async def go(ctx: Context) -> None:
        call = asyncio.ensure_future(asyncio.Event().wait())
        call.cancel()
        await call

    await offer(store)
    await crew(store, go=go).work()
    assert (await only_record(store)).error == "CancelledError"


async def test_a_timeout_of_the_handlers_own_is_not_the_jobs(store: Store) -> None:
    async def go(ctx: Context) -> None:
        raise TimeoutError("database")

    await offer(store, timeout_ms=60_000)
    await crew(store, go=go).work()
    assert (await only_record(store)).error == "TimeoutError: database"


@pytest.mark.parametrize(
    ("retry", "timeout_ms", "outcome", "text"),
    [
        (FIXED, 20, Outcome.FAILED, "timeout: still running after 20 ms"),
        (Retry(deadline_ms=20), None, Outcome.DEAD, "deadline: still running after 20 ms"),
    ],
)
async def test_a_coroutine_is_cancelled_when_its_time_is_over(
    store: Store, retry: Retry, timeout_ms: int | None, outcome: Outcome, text: str
) -> None:
    ends: list[str] = []

    async def go(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    await offer(store, retry=retry, timeout_ms=timeout_ms)
    await crew(store, go=go).work()
    record = await only_record(store)
    assert (record.outcome, record.error, ends) == (outcome, text, ["cancelled"])


async def test_a_function_past_its_time_has_failed_and_keeps_its_slot_until_it_ends(
    store: Store,
) -> None:
    may_end, was_cancelled = threading.Event(), []

    def go(ctx: ThreadContext) -> None:
        may_end.wait(10)
        was_cancelled.append(ctx.cancelled)
        raise ValueError("too late to count")

    await offer(store, timeout_ms=20)
    team = crew(store, go=go, concurrency=2)
    await team.work()
    assert (await only_record(store)).error == "timeout: still running after 20 ms"
    assert team.worker.free == 1
    may_end.set()

    async def is_free() -> bool:
        return team.worker.free == 2

    await eventually(is_free)
    assert was_cancelled == [True]
    assert (await only_record(store)).error == "timeout: still running after 20 ms"


# Losing it


async def test_a_handler_whose_execution_is_cancelled_is_told_at_the_next_heartbeat(
    store: Store,
) -> None:
    told: list[str] = []
    contexts: list[Context] = []

    async def go(ctx: Context) -> None:
        contexts.append(ctx)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled" if ctx.cancelled else "kept")
            raise

    await offer(store)
    team = crew(store, go=go)
    await team.worker.fetch(block=False)
    await asyncio.sleep(0)
    await cancel_executions(store, "job-0", NOW + 800)
    assert not contexts[0].cancelled
    assert await team.worker.beat() == 1
    await settle(team.worker)
    assert told == ["cancelled"]
    with pytest.raises(StaleDelivery):
        await contexts[0].heartbeat()
    assert await team.worker.report() == 0
    assert (await only_record(store)).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_handler_that_lost_its_lease_can_neither_beat_nor_cause_an_effect(
    store: Store, in_thread: bool
) -> None:
    taken: list[Delivery] = []
    seen: list[object] = []

    async def lose() -> None:
        [held] = team.worker._holding.all()
        taken.append(await take_over(store, held.delivery))

    async def go(ctx: Context) -> None:
        await lose()
        for ask in (ctx.heartbeat, lambda: ctx.effect("pay", lambda: seen.append("paid"))):
            with pytest.raises(StaleDelivery):
                await ask()
        seen.append(ctx.cancelled)

    def go_in_thread(ctx: ThreadContext) -> None:
        asyncio.run_coroutine_threadsafe(lose(), loop).result()
        for ask in (ctx.heartbeat, lambda: ctx.effect("pay", lambda: seen.append("paid"))):
            with pytest.raises(StaleDelivery):
                ask()
        seen.append(ctx.cancelled)

    loop = asyncio.get_running_loop()
    await offer(store)
    team = crew(store, go=go_in_thread if in_thread else go)
    await team.work()
    assert seen == [True]
    assert await history(store, "job-0") == []

    async def well(ctx: Context) -> None:
        assert ctx.deliveries == 2

    heir = crew(store, consumer="w2", go=well)
    heir.worker.take(taken[0])
    await heir.work()
    assert await outcomes(store, "job-0") == [(1, Outcome.SUCCEEDED)]


# Effects


def paying(calls: list[str], *, crash: bool = False, fail: bool = False) -> Handler:
    """Return a handler that pays, and then crashes or fails."""

    async def pay() -> dict[str, int]:
        calls.append("paid")
        return {"receipt": len(calls)}

    async def go(ctx: Context) -> None:
        receipt = await ctx.effect("pay", pay)
        calls.append(f"receipt {receipt['receipt']}")
        assert receipt == await ctx.effect("pay", pay)
        if crash:
            await asyncio.Event().wait()
        if fail:
            raise ValueError

    return go


async def test_a_redelivery_gets_what_the_effect_gave_and_does_not_repeat_it(
    store: Store,
) -> None:
    calls: list[str] = []
    await offer(store)
    dying = crew(store, go=paying(calls, crash=True))
    await dying.worker.fetch(block=False)
    await eventually(lambda: has(calls, 2))
    [held] = dying.worker._holding.all()
    heir = crew(store, consumer="w2", go=paying(calls))
    heir.worker.take(await take_over(store, held.delivery))
    await heir.work()
    await dying.worker.beat()
    await settle(dying.worker)
    assert calls == ["paid", "receipt 1", "receipt 1"]
    assert (await only_record(store)).deliveries == 2


async def test_a_later_attempt_gets_it_too(store: Store) -> None:
    calls: list[str] = []
    await offer(store)
    await crew(store, go=paying(calls, fail=True)).work()
    [live] = (await get_job(store, "job-0")).live
    assert live.due_at is not None
    from seeding import fire

    await fire(store, store.layout.shard_of("job-0"), live.due_at)
    await crew(store, consumer="w2", go=paying(calls)).work()
    assert calls == ["paid", "receipt 1", "receipt 1"]
    assert await outcomes(store, "job-0") == [(1, Outcome.FAILED), (2, Outcome.SUCCEEDED)]


async def test_effects_of_a_function_are_plain_functions(store: Store) -> None:
    calls: list[str] = []

    def go(ctx: ThreadContext) -> None:
        for _ in range(2):
            calls.append(ctx.effect("a", lambda: calls.append("made") or "given"))  # type: ignore[func-returns-value]

    await offer(store)
    await crew(store, go=go).work()
    assert calls == ["made", "given", "given"]


@pytest.mark.parametrize("result", [object(), "x" * MOST_RESULT_BYTES])
async def test_an_effect_that_cannot_be_recorded_fails_the_attempt(
    store: Store, result: object
) -> None:
    async def go(ctx: Context) -> None:
        await ctx.effect("a", lambda: result)

    await offer(store)
    await crew(store, go=go).work()
    assert (await only_record(store)).error is not None
    assert ((await only_record(store)).error or "").startswith("BadInput: ")


async def has(items: list[str], count: int) -> bool:
    return len(items) == count


# Threads


async def test_as_many_functions_run_at_once_as_are_called(store: Store) -> None:
    threads, meet = Threads(), threading.Barrier(8)
    for _ in range(2):
        found = await asyncio.gather(*(threads.call(lambda: meet.wait(10)) for _ in range(8)))
        assert sorted(found) == list(range(8))


async def test_a_thread_is_used_again(store: Store) -> None:
    threads = Threads()
    names = {await threads.call(threading.get_ident) for _ in range(20)}
    assert len(names) == 1


# The whole worker


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    await eventually(what, within_s=10)


async def test_it_runs_until_it_is_stopped_and_lets_what_runs_end(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = store.config.model_copy(update={"execution_lease_ms": 600})
    worker = Handlers(config=config, queues=[f"{QUEUE}=2", "other"])
    began, may_end = asyncio.Event(), asyncio.Event()

    @worker.handler()
    async def go(ctx: Context) -> None:
        began.set()
        await may_end.wait()

    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    await offer(store)
    await asyncio.wait_for(began.wait(), 10)
    stop.set()

    async def is_draining() -> bool:
        return "waiting for 1 executions" in caplog.text

    await until(is_draining)
    await offer(store, job_id="job-late")
    may_end.set()
    await asyncio.wait_for(running, 10)
    assert (await only_record(store)).outcome is Outcome.SUCCEEDED
    assert await history(store, "job-late") == []
