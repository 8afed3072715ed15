"""Lanes: what an execution needs permits of, and what it takes there."""

from __future__ import annotations

import pytest
from filling import advance, begin, old_job, order
from invariants import read_shard
from seeding import (
    MINUTE,
    NOW,
    at_once,
    fire,
    grant,
    http,
    job_ids,
    lanes_of,
    limit,
    result,
    seed,
    take,
)

from engine.execution import Outcome
from engine.model import HttpTarget, ShellTarget, Target
from engine.names import Priority
from engine.store import Store
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import run_job

LIMITED: dict[str, int] = {"slots__q_http": 5, "slots__h_a.test": 1, "tokens__h_c.test:8080": 0}


async def test_an_execution_needs_a_permit_of_each_of_its_lanes(any_store: Store) -> None:
    shard = await limit(any_store, **LIMITED)
    ids = job_ids(any_store, 4)
    for job_id, host in zip(ids, ["a.test", "A.Test", "b.test", "C.test:8080"], strict=True):
        await seed(any_store, at_once(job_id, queue="http", target=http(host)))
    after = await read_shard(any_store, shard)
    assert lanes_of(after, ids[0]) == "q/http,h/a.test"
    assert lanes_of(after, ids[2]) == "q/http"
    assert after["due:@"] == {
        f"{ids[1]}@{NOW}": "@h/a.test",
        f"{ids[3]}@{NOW}": "@h/c.test:8080",
    }
    # What waits for its host has taken nothing of its queue.
    assert after["gates"] == {
        "slots:q/http": "3",
        "live:q/http": "2",
        "slots:h/a.test": "0",
        "live:h/a.test": "1",
        "tokens:h/c.test:8080": "0",
        "token": "1",
    }


async def test_an_end_gives_back_a_permit_of_each_lane(any_store: Store) -> None:
    shard = await limit(any_store, **LIMITED)
    await seed(any_store, at_once("job-0", queue="http", target=http("a.test")))
    [delivery] = await take(any_store, stream="http")
    await complete_executions(any_store, [result(delivery)], NOW)
    assert (await read_shard(any_store, shard))["gates"] == {
        "slots:q/http": "5",
        "slots:h/a.test": "1",
        "tokens:h/c.test:8080": "0",
        "token": "1",
    }


@pytest.mark.parametrize(
    ("target", "lane"),
    [
        (HttpTarget("http://a.test"), "h/a.test"),
        (HttpTarget("https://A.TEST?x=https://b.test/"), "h/a.test"),
        (HttpTarget("https://b.test/a.test", {"url": "https://a.test/"}), ""),
        (HttpTarget("https://a.test.b/"), ""),
        (ShellTarget("true", env={"url": "https://a.test/"}), ""),
    ],
)
async def test_a_host_is_that_of_an_http_targets_url(
    any_store: Store, target: Target, lane: str
) -> None:
    shard = await limit(any_store, **{"slots__h_a.test": 9})
    await seed(any_store, at_once("job-0", target=target))
    assert lanes_of(await read_shard(any_store, shard)) == lane


async def test_what_waits_is_apart_by_priority_and_takes_from_one_lane(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=1)
    ids = job_ids(any_store, 4)
    await seed(any_store, at_once(ids[0]))
    for job_id, priority in zip(ids[1:], Priority, strict=True):
        await seed(any_store, at_once(job_id, priority=priority))
    held = await read_shard(any_store, shard)
    assert held["due:@"] == {
        f"{ids[1]}@{NOW}": "@q/default:high",
        f"{ids[2]}@{NOW}": "@q/default",
        f"{ids[3]}@{NOW}": "@q/default:low",
    }
    streams = ["default", "default:high", "default", "default:low"]
    for stream, job_id in zip(streams, [ids[0], *ids[1:]], strict=True):
        [delivery] = await take(any_store, stream=stream)
        assert delivery.job_id == job_id
        await complete_executions(any_store, [result(delivery)], NOW)
        await fire(any_store, shard)
    after = await read_shard(any_store, shard)
    assert after["gates"] == {"slots:q/default": "1", "token": "1"}


async def test_a_rate_is_spent_and_does_not_come_back_with_an_end(any_store: Store) -> None:
    shard = await limit(any_store, tokens__q_default=2)
    ids = job_ids(any_store, 3)
    await seed(any_store, *(at_once(job_id) for job_id in ids))
    after = await read_shard(any_store, shard)
    assert after["due:@"] == {f"{ids[2]}@{NOW}": "@q/default"}
    assert after["gates"] == {"tokens:q/default": "0", "live:q/default": "2", "token": "1"}
    await complete_executions(any_store, [result(d) for d in await take(any_store)], NOW)
    assert (await read_shard(any_store, shard))["gates"] == {"tokens:q/default": "0", "token": "1"}
    assert await fire(any_store, shard) == Fired()


async def test_a_lane_with_both_limits_needs_both(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=5, tokens__q_default=0)
    await seed(any_store, at_once("job-0"))
    await grant(any_store, shard, {"tokens:q/default": "+1", "slots:q/default": "-5"})
    assert await fire(any_store, shard) == Fired()
    await grant(any_store, shard, {"slots:q/default": "+1"})
    assert await fire(any_store, shard) == Fired(fired=1)
    assert (await read_shard(any_store, shard))["gates"] == {
        "slots:q/default": "0",
        "tokens:q/default": "0",
        "live:q/default": "1",
        "token": "1",
    }


async def test_in_a_fair_queue_a_group_that_nobody_knows_has_a_few_at_once(
    any_store: Store,
) -> None:
    shard = await limit(any_store, fair__default=2)
    ids = job_ids(any_store, 5)
    for job_id, name in zip(ids, ["blue", "blue", "blue", "green", None], strict=True):
        await seed(any_store, at_once(job_id, group=name))
    after = await read_shard(any_store, shard)
    assert lanes_of(after, ids[0]) == "g/default/blue"
    assert lanes_of(after, ids[3]) == "g/default/green"
    assert lanes_of(after, ids[4]) == "g/default/"
    assert after["due:@"] == {f"{ids[2]}@{NOW}": "@g/default/blue"}
    assert after["gates"] == {
        "fair:default": "2",
        "tokens:g/default/blue": "0",
        "live:g/default/blue": "2",
        "tokens:g/default/green": "1",
        "live:g/default/green": "1",
        "tokens:g/default/": "1",
        "live:g/default/": "1",
        "token": "1",
    }


async def test_groups_are_no_lanes_where_the_queue_is_not_fair(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=5, fair__mail=1)
    await seed(any_store, at_once("job-0", group="blue"))
    assert lanes_of(await read_shard(any_store, shard)) == "q/default"


@pytest.mark.parametrize("name", ["blue", None])
async def test_whatever_starts_an_execution_its_group_is_known(
    any_store: Store, name: str | None
) -> None:
    shard = await begin(any_store, order(-1, -1), old_job(group=name))
    await limit(any_store, fair__default=9)
    lane = f"g/default/{name or ''}"
    await advance(any_store, shard)
    await run_job(any_store, "job-0", NOW + 5)
    [filled, by_hand] = await take(any_store)
    await complete_executions(any_store, [result(filled), result(by_hand)], NOW)
    await fire(any_store, shard, NOW + MINUTE)
    [due] = await take(any_store)
    retry_at = NOW + 2 * MINUTE
    await complete_executions(any_store, [result(due, Outcome.FAILED, retry_at - 1)], NOW)
    await fire(any_store, shard, retry_at - 1)
    after = await read_shard(any_store, shard)
    assert lanes_of(after, nominal_at=NOW + MINUTE) == lane
    # One token each for the backfill, the run by hand, the due time, and its retry.
    gates = {key: value for key, value in after["gates"].items() if key.startswith("tokens:")}
    assert gates == {f"tokens:{lane}": "5"}
