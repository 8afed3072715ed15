"""The fleet over HTTP: shards, schedulers, workers, server, rates, and the doctor."""

from __future__ import annotations

import json
from dataclasses import replace

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, MINUTE, NOW, NOW_TEXT, create, refused
from fleet import keep
from hashing import change_head

from engine import __version__
from engine.clock import ManualClock
from engine.doctor import facts
from engine.plan import ZONE_DATABASE
from engine.store import Store
from engine.store.fleet import read_oldest_due
from engine.store.processes import Process, Role, announce_process
from engine.store.server import time_ms

client = calling.client
clock = calling.clock

PROCESS = Process(
    name="w1",
    role=Role.WORKER,
    host="here",
    pid=7,
    version="0.0.9",
    zones="2026f",
    started_at=NOW - MINUTE,
    seen_at=NOW,
    skew_ms=-3,
    queues=("mail",),
    concurrency=5,
    running=2,
)


async def test_shards_say_who_fires_for_them_and_how_late(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    keeper, _ = keep(store, clock, "s1")
    await keeper.step()
    await create(client, CRON)
    clock.advance(16 * 60 * MINUTE + 500)  # the next midnight UTC, and a little more
    shard = store.layout.shard_of("report")
    shown = (await client.get("/v1/shards")).json()
    assert [one["shard"] for one in shown] == [0, 1, 2, 3]
    mine = shown[shard.index]
    assert 0 < mine.pop("lease_left_ms") <= store.config.lease_ttl_ms
    assert mine.pop("fencing_token") > 0
    assert mine == {
        "shard": shard.index,
        "tag": shard.tag,
        "holder": "s1",
        "oldest_due_at": "2027-01-16T00:00:00.000Z",
        "lag_ms": 500,
        "buckets": 1,
        "waiting": 0,
        "running": 0,
        "jobs": 1,
    }


async def test_schedulers_and_workers_are_shown_as_they_announce_themselves(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    keeper, _ = keep(store, clock, "s1")
    await keeper.step()
    await announce_process(store, PROCESS)
    about = {
        "host": "here",
        "pid": 7,
        "version": "0.0.9",
        "timezones": "2026f",
        "clock_skew_ms": -3,
        "started_at": "2027-01-15T07:59:00.000Z",
        "last_seen_at": NOW_TEXT,
    }
    [scheduler] = (await client.get("/v1/schedulers")).json()
    assert scheduler == {"scheduler": "s1", "shards": [0, 1, 2, 3], **dict.fromkeys(about)}
    await announce_process(store, replace(PROCESS, name="s1", role=Role.SCHEDULER))
    [scheduler] = (await client.get("/v1/schedulers")).json()
    assert scheduler == {"scheduler": "s1", "shards": [0, 1, 2, 3], **about}
    [worker] = (await client.get("/v1/workers")).json()
    assert worker == {"worker": "w1", "queues": ["mail"], "concurrency": 5, "running": 0, **about}


async def test_a_worker_over_http_is_shown_by_what_it_holds(client: httpx.AsyncClient) -> None:
    await create(client, AT_ONCE)
    await calling.claim(client, "mine")
    [worker] = (await client.get("/v1/workers")).json()
    assert (worker["worker"], worker["running"], worker["queues"]) == ("mine", 1, ["default"])
    assert (worker["host"], worker["concurrency"]) == (None, None)


async def test_the_server_is_told_with_what_is_deployed_on_it(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, CRON)
    await announce_process(store, PROCESS)
    server = (await client.get("/v1/server")).json()
    assert server["name"] in ("valkey", "redis")
    assert (server["role"], server["replicas"]) == ("master", [])
    assert server["persistence"]["appendonly"] is False
    assert server["memory"]["policy"] == "noeviction"
    assert abs(server["clock_skew_ms"]) < 1_000
    assert server["deployment"] == {
        "shards": 4,
        "layout_version": 2,
        "jobs": 1,
        "versions": ["0.0.9", __version__],
        "timezones": ZONE_DATABASE,
    }


async def test_rates_are_those_of_the_last_seconds_by_the_servers_clock(
    client: httpx.AsyncClient, store: Store
) -> None:
    now = await time_ms(store.client)
    record = [NOW, "failed", 1, 1, "w1", 5, 10, 500, "HTTP 500"]
    events = [["fired", f"a@{NOW}", 1, now - 40, "http"], ["failed", f"a@{NOW}", record]]
    text = "\n".join(map(json.dumps, events))
    await store.client.xadd(store.layout.shards[1].ledger, {"events": text}, id=f"{now}-*")
    stats = (await client.get("/v1/stats")).json()
    assert (stats["fires_per_s"], stats["failures_per_s"]) == (0.1, 0.1)
    assert (stats["lag_p50_ms"], stats["lag_p99_ms"]) == (40, 40)
    [failure] = stats["last_failures"]
    assert failure["execution_id"] == f"a@{NOW}"
    assert (failure["outcome"], failure["error"]) == ("failed", "HTTP 500")


async def test_the_doctor_says_what_is_wrong(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    said = (await client.get("/v1/doctor")).json()
    assert said["is_well"] is False
    verdicts = {one["check"]: one["verdict"] for one in said["findings"]}
    assert verdicts["shards with a scheduler"] == "fail"
    assert verdicts["persistence"] == "fail"
    assert verdicts["lateness"] == "ok"
    keeper, _ = keep(store, clock, "s1")
    await keeper.step()
    said = (await client.get("/v1/doctor")).json()
    verdicts = {one["check"]: one["verdict"] for one in said["findings"]}
    assert verdicts["shards with a scheduler"] == "ok"


@pytest.mark.parametrize("fires_between", [False, True])
async def test_a_shard_that_is_held_and_fires_nothing_is_stuck(
    client: httpx.AsyncClient,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    fires_between: bool,
) -> None:
    keeper, scheduler = keep(store, clock, "s1")
    await keeper.step()
    await create(client, CRON)
    clock.advance(17 * 60 * MINUTE)

    async def look_later(store: Store) -> list[int | None]:
        if fires_between:
            await keeper.step()
            await scheduler.step()
        return await read_oldest_due(store)

    monkeypatch.setattr(facts, "LOOK_AGAIN_MS", 0)
    monkeypatch.setattr(facts, "read_oldest_due", look_later)
    [finding] = [
        one
        for one in (await client.get("/v1/doctor")).json()["findings"]
        if one["check"] == "lateness"
    ]
    assert finding["verdict"] == "fail"
    assert ("stuck" in finding["found"]) is not fires_between


async def test_one_shard_is_held_against_its_records(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, CRON)
    shard = store.layout.shard_of("report")
    path = f"/v1/doctor/shards/{shard.index}"
    sound = {"shard": shard.index, "jobs": 1, "members": 1, "faults": {}, "examples": []}
    assert (await client.get(path)).json() == sound
    await change_head(store, "report", live=3)
    audit = (await client.get(path)).json()
    assert audit["faults"] == {"counts other live executions than it has": 1}
    assert audit["examples"] == ["report: counts other live executions than it has"]
    await change_head(store, "report", live=0)


@pytest.mark.parametrize("shard", ["4", "-1", "x", "0000"])
async def test_a_shard_that_is_none_is_404(client: httpx.AsyncClient, shard: str) -> None:
    problem = refused(await client.get(f"/v1/doctor/shards/{shard}"), 404, "not_found")
    assert "0 to 3" in problem["detail"]
