"""Queues and hosts over HTTP: what is set for them, and how they stand."""

from __future__ import annotations

import asyncio
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, NOW, create, refused
from seeding import grant, take

from engine.store import Store
from engine.store.limits import (
    Limit,
    Pushback,
    QueueSettings,
    change_queue,
    make_fair,
    note_pushback,
    read_limits,
    read_queue,
)

client = calling.client
clock = calling.clock

UNSET: dict[str, Any] = {
    "queue": "default",
    "paused": False,
    "fair": False,
    "concurrency": None,
    "rate": None,
    "burst": 1,
    "waiting": {"high": 0, "normal": 0, "low": 0},
    "running": 0,
    "held": {"queue": 0, "groups": 0, "room": 0},
}
HOST: dict[str, Any] = {
    "host": "example.com:8080",
    "concurrency": None,
    "rate": None,
    "burst": 1,
    "held": 0,
    "pushed_back_at": None,
}
LIMIT = {"concurrency": 5, "rate": 2.5, "burst": 3}


async def got(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def put(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    answer = await client.put(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def hold(store: Store, job_id: str, fields: dict[str, str]) -> None:
    await grant(store, store.layout.shard_of(job_id), fields)


async def test_the_usual_queues_are_listed_before_anything_is_set(
    client: httpx.AsyncClient,
) -> None:
    assert await got(client, "/v1/queues") == [
        UNSET,
        {**UNSET, "queue": "http"},
        {**UNSET, "queue": "shell"},
    ]
    assert await got(client, "/v1/queues/mail") == {**UNSET, "queue": "mail"}


async def test_a_queue_shows_what_waits_by_priority_and_what_runs(
    client: httpx.AsyncClient, store: Store
) -> None:
    for n, priority in enumerate(["high", "normal", "normal", "low", "low", "low"]):
        await create(client, {**AT_ONCE, "job_id": f"mail-{n}", "priority": priority})
    assert len(await take(store, stream="default:low")) == 3
    assert await got(client, "/v1/queues/default") == {
        **UNSET,
        "waiting": {"high": 1, "normal": 2, "low": 0},
        "running": 3,
    }


async def test_a_queue_shows_what_keeps_executions_out_of_its_streams(
    client: httpx.AsyncClient, store: Store
) -> None:
    await hold(store, "a", {"slots:q/slow": "0", "slots:h/example.com:8081": "0"})
    await hold(store, "b", {"fair:many": "0", "slots:h/example.com": "0"})
    # Beside each other in their shards, or in different ones: each is counted once.
    job_ids = {"a": _ids_like(store, "a", 4), "b": _ids_like(store, "b", 4)}
    slow = {**AT_ONCE, "queue": "slow"}
    await create(client, {**slow, "job_id": job_ids["a"][0]})
    await create(client, {**slow, "job_id": job_ids["a"][1], "priority": "high"})
    many = {**AT_ONCE, "queue": "many"}
    for n in range(3):
        await create(client, {**many, "job_id": job_ids["b"][n], "group": f"g{n}"})
    url = {"type": "http", "url": "http://Example.com:8081/x"}
    high = {"target": url, "priority": "high"}
    await create(client, {**high, "job_id": job_ids["a"][2]})
    await create(client, {"target": url, "job_id": job_ids["a"][3]})
    await create(
        client, {"target": {**url, "url": "https://example.com"}, "job_id": job_ids["b"][3]}
    )
    found = {queue["queue"]: queue["held"] for queue in await got(client, "/v1/queues")}
    nothing = {"queue": 0, "groups": 0, "room": 0}
    assert found == {
        "default": nothing,
        "http": nothing,
        "shell": nothing,
        "many": {**nothing, "groups": 3},
        "slow": {**nothing, "queue": 2},
    }
    hosts = {host["host"]: host["held"] for host in await got(client, "/v1/hosts")}
    assert hosts == {"example.com": 1, "example.com:8081": 2}


def _ids_like(store: Store, job_id: str, count: int) -> list[str]:
    """Return ids of jobs that lie in the shard of `job_id`."""
    shard = store.layout.shard_of(job_id)
    found = (f"{job_id}{n}" for n in range(1_000))
    return [name for name in found if store.layout.shard_of(name) is shard][:count]


async def test_limits_are_set_in_place_of_what_was_set(
    client: httpx.AsyncClient, store: Store
) -> None:
    shown = await put(client, "/v1/queues/mail", LIMIT)
    assert shown == {**UNSET, "queue": "mail", **LIMIT}
    assert (await read_queue(store, "mail")).limit == Limit(5, 2.5, 3)
    assert "mail" in [queue["queue"] for queue in await got(client, "/v1/queues")]
    assert (await put(client, "/v1/queues/mail", {"rate": 7}))["concurrency"] is None
    await put(client, "/v1/queues/mail", {})
    assert (await read_limits(store)).queues == {}


async def test_pausing_and_limiting_do_not_undo_each_other(
    client: httpx.AsyncClient, store: Store
) -> None:
    await make_fair(store, "mail")
    assert (await client.post("/v1/queues/mail/pause")).json()["paused"] is True
    assert (await put(client, "/v1/queues/mail", LIMIT))["paused"] is True
    assert (await client.post("/v1/queues/mail/pause")).json()["paused"] is True
    shown = (await client.post("/v1/queues/mail/resume")).json()
    assert shown == {**UNSET, "queue": "mail", "fair": True, **LIMIT}


async def test_changes_of_one_queue_at_the_same_moment_are_all_kept(store: Store) -> None:
    changes: list[dict[str, Any]] = [{"paused": True}, {"fair": True}, {"limit": Limit(3)}]
    for round_ in range(20):
        queue = f"mail-{round_}"
        await asyncio.gather(*(change_queue(store, queue, **change) for change in changes))
        assert await read_queue(store, queue) == QueueSettings(True, True, Limit(3))


async def test_a_host_is_limited_as_it_stands_in_urls(
    client: httpx.AsyncClient, store: Store
) -> None:
    assert await got(client, "/v1/hosts") == []
    assert await put(client, "/v1/hosts/Example.com:8080", LIMIT) == {**HOST, **LIMIT}
    assert await got(client, "/v1/hosts") == [{**HOST, **LIMIT}]
    assert (await read_limits(store)).hosts == {"example.com:8080": Limit(5, 2.5, 3)}
    for _ in range(2):
        answer = await client.delete("/v1/hosts/EXAMPLE.com:8080")
        assert (answer.status_code, answer.content) == (204, b"")
    assert await got(client, "/v1/hosts/example.com:8080") == HOST
    assert await got(client, "/v1/hosts") == []


async def test_a_host_that_asked_for_less_says_when(
    client: httpx.AsyncClient, store: Store
) -> None:
    await note_pushback(store, "example.com:8080", Pushback(NOW, 5_000))
    shown = {**HOST, "pushed_back_at": "2027-01-15T08:00:00.000Z"}
    assert await got(client, "/v1/hosts") == [shown]
    assert await got(client, "/v1/hosts/example.com:8080") == shown


@pytest.mark.parametrize("what", ["queues", "hosts"])
async def test_lists_come_in_pages(client: httpx.AsyncClient, what: str) -> None:
    names = [f"name-{n}" for n in range(5)]
    for name in names:
        await put(client, f"/v1/{what}/{name}", LIMIT)
    url: str | None = f"/v1/{what}?limit=2&after=https"
    found: list[str] = []
    while url:
        answer = await client.get(url)
        found += [row[what[:-1]] for row in answer.json()]
        url = answer.links["next"]["url"] if "next" in answer.links else None
    assert [name for name in found if name != "shell"] == names


@pytest.mark.parametrize("path", ["/v1/queues/mail", "/v1/hosts/example.com"])
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"concurrency": 0}, "/concurrency"),
        ({"concurrency": 1.5}, "/concurrency"),
        ({"rate": 0}, "/rate"),
        ({"rate": "5"}, "/rate"),
        ({"burst": 0}, "/burst"),
        ({"burst": None}, "/burst"),
        ({"paused": True}, "/paused"),
    ],
)
async def test_a_wrong_limit_is_refused_and_sets_nothing(
    client: httpx.AsyncClient, store: Store, path: str, body: dict[str, Any], pointer: str
) -> None:
    problem = refused(await client.put(path, json=body), 400, "bad_input")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]
    limits = await read_limits(store)
    assert (limits.queues, limits.hosts) == ({}, {})


@pytest.mark.parametrize(
    "path", ["/v1/queues/a:high", "/v1/queues/-", "/v1/hosts/a@b", "/v1/hosts/h%20x"]
)
async def test_what_can_have_no_such_name_is_not_found(
    client: httpx.AsyncClient, path: str
) -> None:
    refused(await client.get(path), 404, "not_found")
    refused(await client.put(path, json=LIMIT), 404, "not_found")
