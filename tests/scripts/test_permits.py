"""Permits: an execution holds those that it took until it ends or leaves its stream, and gives each
back once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest
from filling import advance, begin, order
from invariants import read_shard
from seeding import (
    LAPSES_AT,
    MINUTE,
    NOW,
    at_once,
    fire,
    grant,
    http,
    job_ids,
    registration,
    result,
    seed,
    take,
)

from engine.codec import Promise
from engine.execution import Delivery, Outcome
from engine.keys import Shard
from engine.model import Overlap, Rules
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.due import Fired
from engine.store.executions import (
    complete_executions,
    hand_back_executions,
    reclaim_executions,
)
from engine.store.jobs import create_jobs, delete_job, run_job
from engine.store.reports import report_end, report_running

SLOTS = {"slots:q/default": "3", "slots:h/a.test": "1"}
FREE = SLOTS | {"token": "1"}
TAKEN = {
    "slots:q/default": "2",
    "live:q/default": "1",
    "slots:h/a.test": "0",
    "live:h/a.test": "1",
    "token": "1",
}
PROMISE = Promise(f"job-0@{NOW}", 1, NOW + 500, NOW + 9 * MINUTE)


async def gates(store: Store, shard: Shard) -> dict[str, str]:
    found: dict[str, str] = (await read_shard(store, shard)).get("gates", {})
    return found


async def begin_limited(store: Store) -> tuple[Shard, Delivery]:
    """Start job-0, which holds a permit of its queue and the only one of its host."""
    shard = store.layout.shard_of("job-0")
    await grant(store, shard, SLOTS)
    await seed(store, at_once("job-0", target=http("a.test")))
    [delivery] = await take(store)
    assert await gates(store, shard) == TAKEN
    return shard, delivery


async def complete(store: Store, delivery: Delivery, outcome: Outcome) -> None:
    retry_at = NOW + 900 if outcome is Outcome.FAILED else None
    await complete_executions(store, [result(delivery, outcome, retry_at)], NOW)


async def poison(store: Store, delivery: Delivery) -> None:
    store.config = store.config.model_copy(update={"max_deliveries": 1})
    shard = store.layout.shards[delivery.shard]
    entries = [delivery.entry_id]
    ready = shard.ready("default")
    await store.client.xclaim(ready, "workers", "w1", 0, entries, idle=3_600_000, justid=True)
    assert (await reclaim_executions(store, "default", shard, "w2", NOW)).poisoned == 1


async def report(store: Store, *, succeeded: bool = True) -> None:
    await report_end(store, PROMISE, NOW + 900, succeeded=succeeded, rng=Random(1))


async def accept_and_report(store: Store, delivery: Delivery, *, succeeded: bool) -> None:
    await complete(store, delivery, Outcome.ACCEPTED)
    await report(store, succeeded=succeeded)


async def accept_and_delete(store: Store, delivery: Delivery) -> None:
    await complete(store, delivery, Outcome.ACCEPTED)
    await delete_job(store, "job-0")


async def accept_and_cancel(store: Store, delivery: Delivery) -> None:
    await complete(store, delivery, Outcome.ACCEPTED)
    await cancel_executions(store, "job-0", NOW)


ENDS: dict[str, Callable[[Store, Delivery], Awaitable[object]]] = {
    "succeeded": lambda store, delivery: complete(store, delivery, Outcome.SUCCEEDED),
    "failed": lambda store, delivery: complete(store, delivery, Outcome.FAILED),
    "dead": lambda store, delivery: complete(store, delivery, Outcome.DEAD),
    "skipped": lambda store, delivery: complete(store, delivery, Outcome.SKIPPED),
    "poison": poison,
    "deleted": lambda store, _: delete_job(store, "job-0"),
    "cancelled": lambda store, _: cancel_executions(store, "job-0", NOW),
    "handed back": lambda store, d: hand_back_executions(store, [d], lane="h/a.test"),
    "reported": lambda store, _: report(store),
    "accepted, succeeded": lambda store, d: accept_and_report(store, d, succeeded=True),
    "accepted, failed": lambda store, d: accept_and_report(store, d, succeeded=False),
    "accepted, deleted": accept_and_delete,
    "accepted, cancelled": accept_and_cancel,
}


@pytest.mark.parametrize("end", ENDS)
async def test_whatever_ends_an_execution_gives_its_permits_back_once(
    any_store: Store, end: str
) -> None:
    shard, delivery = await begin_limited(any_store)
    await ENDS[end](any_store, delivery)
    assert await gates(any_store, shard) == FREE
    await complete(any_store, delivery, Outcome.SUCCEEDED)
    assert await gates(any_store, shard) == FREE


async def test_while_its_target_runs_it_an_execution_holds_its_permits(any_store: Store) -> None:
    shard, delivery = await begin_limited(any_store)
    await complete(any_store, delivery, Outcome.ACCEPTED)
    assert await gates(any_store, shard) == TAKEN
    await report_running(any_store, PROMISE, NOW + 900, LAPSES_AT + 5)
    assert await gates(any_store, shard) == TAKEN
    assert await fire(any_store, shard, LAPSES_AT + 5) == Fired(fired=1)
    assert await gates(any_store, shard) == TAKEN
    [lapsed] = await take(any_store)
    assert lapsed.lapsed
    await complete(any_store, lapsed, Outcome.FAILED)
    assert await gates(any_store, shard) == FREE


async def test_one_that_lapses_is_offered_for_its_end_without_a_permit(any_store: Store) -> None:
    shard, delivery = await begin_limited(any_store)
    await complete(any_store, delivery, Outcome.ACCEPTED)
    await grant(any_store, shard, {"slots:q/default": "-9", "slots:h/a.test": "-9"})
    assert await fire(any_store, shard, LAPSES_AT) == Fired(fired=1)
    [lapsed] = await take(any_store)
    await complete(any_store, lapsed, Outcome.DEAD)
    assert await gates(any_store, shard) == {
        "slots:q/default": "-6",
        "slots:h/a.test": "-8",
        "token": "1",
    }


async def test_one_that_waits_has_no_permits_to_give_back(any_store: Store) -> None:
    shard, _ = await begin_limited(any_store)
    other = job_ids(any_store, 2)[1]
    await seed(any_store, at_once(other, target=http("a.test")))
    await delete_job(any_store, other)
    assert await gates(any_store, shard) == TAKEN


async def test_what_is_read_by_nobody_gives_back_too(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    await grant(any_store, shard, SLOTS)
    await seed(any_store, at_once("job-0", target=http("a.test")))
    await delete_job(any_store, "job-0")
    assert await gates(any_store, shard) == FREE


async def test_a_backfill_gives_back_as_others_do(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1, concurrency=2))
    await grant(any_store, shard, {"slots:q/default": "2"})
    assert await advance(any_store, shard) == 2
    ends = [result(delivery) for delivery in await take(any_store)]
    await complete_executions(any_store, ends, NOW)
    assert await gates(any_store, shard) == {"slots:q/default": "2", "token": "1"}


async def test_an_outcome_of_a_job_that_is_gone_gives_nothing_back_again(any_store: Store) -> None:
    """Nor does it take from the new job of the same id and time, which holds permits of its own."""
    shard, delivery = await begin_limited(any_store)
    await delete_job(any_store, "job-0")
    await create_jobs(any_store, [at_once("job-0", target=http("a.test"))])
    assert await gates(any_store, shard) == TAKEN
    await complete(any_store, delivery, Outcome.SUCCEEDED)
    assert await gates(any_store, shard) == TAKEN


# Overlap policy `replace`


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_newer_execution_takes_the_permit_of_what_it_replaces(
    any_store: Store, slots: int
) -> None:
    """Were it to wait for that to end by itself, nothing would be replaced under a limit of one."""
    made = registration("job-0", overlap=Overlap.REPLACE, target=http("a.test"))
    shard = await seed(any_store, made)
    await grant(any_store, shard, {"slots:h/a.test": str(slots)})
    assert await fire(any_store, shard) == Fired(fired=1)
    [running] = await take(any_store)
    assert await fire(any_store, shard, NOW + MINUTE) == Fired(fired=1)
    after = await read_shard(any_store, shard)
    assert after["gates"] == {
        "slots:h/a.test": str(slots - 1),
        "live:h/a.test": "1",
        "token": "1",
    }
    assert f"x:{NOW}" not in after["job:job-0"]
    await complete(any_store, running, Outcome.SUCCEEDED)
    assert await read_shard(any_store, shard) == after


async def test_nothing_is_replaced_while_the_newer_one_lacks_another_permit(
    any_store: Store,
) -> None:
    made = registration("job-0", overlap=Overlap.REPLACE, target=http("a.test"))
    shard = await seed(any_store, made)
    await grant(any_store, shard, {"slots:q/default": "1", "tokens:h/a.test": "1"})
    await fire(any_store, shard)
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, NOW + MINUTE) == Fired(held=1)
    after = await read_shard(any_store, shard)
    assert after["gates"] == before["gates"]
    assert after["job:job-0"] == before["job:job-0"]


async def test_one_job_replaces_and_another_does_not_get_its_permit(any_store: Store) -> None:
    ids = job_ids(any_store, 2)
    shard = await seed(any_store, registration(ids[0], overlap=Overlap.REPLACE))
    await grant(any_store, shard, {"slots:q/default": "1"})
    await fire(any_store, shard)
    await seed(any_store, registration(ids[1], next_run_at=NOW + MINUTE))
    assert await fire(any_store, shard, NOW + MINUTE) == Fired(fired=1, held=1)
    after = await read_shard(any_store, shard)
    assert after["gates"] == {"slots:q/default": "0", "live:q/default": "1", "token": "1"}


async def test_all_that_is_replaced_gives_back(any_store: Store) -> None:
    made = registration("job-0", overlap=Overlap.REPLACE)
    shard = await seed(any_store, made)
    await grant(any_store, shard, {"slots:q/default": "3"})
    await fire(any_store, shard)
    await run_job(any_store, "job-0", NOW + 5)
    await run_job(any_store, "job-0", NOW + 6)
    assert (await gates(any_store, shard))["slots:q/default"] == "0"
    await fire(any_store, shard, NOW + MINUTE)
    assert await gates(any_store, shard) == {
        "slots:q/default": "2",
        "live:q/default": "1",
        "token": "1",
    }


@pytest.mark.parametrize(("debt", "fires"), [(1, True), (2, False)])
async def test_what_is_replaced_pays_a_debt_first(any_store: Store, debt: int, fires: bool) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.REPLACE))
    await grant(any_store, shard, {"slots:q/default": "2"})
    await fire(any_store, shard)
    await run_job(any_store, "job-0", NOW + 5)
    await grant(any_store, shard, {"slots:q/default": f"-{debt}"})
    fired = await fire(any_store, shard, NOW + MINUTE)
    assert fired == (Fired(fired=1) if fires else Fired(held=1))
    assert await gates(any_store, shard) == {
        "slots:q/default": "0" if fires else "-2",
        "live:q/default": "1" if fires else "2",
        "token": "1",
    }


# A limit that is lifted


async def test_what_was_let_in_under_a_limit_that_was_lifted_gives_nothing_back(
    any_store: Store,
) -> None:
    shard, delivery = await begin_limited(any_store)
    lifted = {"slots:h/a.test": "", "live:h/a.test": ""}
    await grant(any_store, shard, lifted)
    await complete(any_store, delivery, Outcome.SUCCEEDED)
    assert await gates(any_store, shard) == {"slots:q/default": "3", "token": "1"}


@pytest.mark.parametrize("are_together", [False, True])
async def test_permits_do_not_grow_where_a_limit_was_lifted_and_set_again(
    any_store: Store, are_together: bool
) -> None:
    """Two came in under the old limit and one under the new: they give back one permit, not
    three."""
    shard = any_store.layout.shard_of("job-0")
    await grant(any_store, shard, {"slots:q/default": "2"})
    ids = job_ids(any_store, 3)
    await seed(any_store, at_once(ids[0]), at_once(ids[1]))
    await grant(any_store, shard, {"slots:q/default": "", "live:q/default": ""})
    await grant(any_store, shard, {"slots:q/default": "1"})
    await seed(any_store, at_once(ids[2]))
    ends = [result(delivery) for delivery in await take(any_store)]
    assert len(ends) == 3
    for batch in [ends] if are_together else [[end] for end in ends]:
        await complete_executions(any_store, batch, NOW)
    assert await gates(any_store, shard) == {"slots:q/default": "1", "token": "1"}


# The concurrency rule counts a job's own executions, and permits are another matter


async def test_what_the_rules_start_later_takes_its_permit_then(any_store: Store) -> None:
    rules = Rules(concurrency=2)
    made = registration("job-0", overlap=Overlap.QUEUE_ALL, rules=rules)
    shard = await seed(any_store, made)
    await grant(any_store, shard, {"slots:q/default": "2"})
    for minute in range(3):
        assert await fire(any_store, shard, NOW + minute * MINUTE) == Fired(fired=1)
    now = NOW + 2 * MINUTE
    assert (await gates(any_store, shard))["slots:q/default"] == "0"
    [first, _] = await take(any_store)
    await complete_executions(any_store, [result(first)], now)
    assert (await gates(any_store, shard))["slots:q/default"] == "1"
    assert await fire(any_store, shard, now) == Fired(fired=1)
    assert (await gates(any_store, shard))["slots:q/default"] == "0"
