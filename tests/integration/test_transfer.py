"""A whole deployment, carried from one server to another: with other shards, on another server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from carrying import busy, content, each, lines_of
from invariants import check_invariants, read_shard
from seeding import (
    MINUTE,
    NOW,
    at_once,
    fire,
    grant,
    job_ids,
    lease,
    registration,
    result,
    take,
)

from engine import codec
from engine.codec import Promise
from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.errors import BadInput, Conflict, Frozen, Unusable
from engine.execution import Delivery
from engine.model import Overlap
from engine.names import Priority
from engine.store import Store
from engine.store.connection import connect
from engine.store.effects import record_effect
from engine.store.executions import (
    Answer,
    complete_executions,
    hand_back_executions,
    heartbeat_executions,
    reclaim_executions,
)
from engine.store.freezing import count_held, freeze, thaw
from engine.store.jobs import create_jobs, delete_job, get_job, run_job
from engine.store.phase import Phase, read_phase
from engine.store.reports import report_running, signing_key
from engine.store.transfer import kinds, move, writer, writing
from engine.store.transfer.move import open_source
from engine.store.transfer.reading import READERS, export_lines
from engine.store.transfer.writer import WRITERS
from engine.store.transfer.writing import import_lines

SHARDS_THERE = (1, 3, 7)


def redis_7() -> Path | None:
    """Return a Redis server of release 7, by WATERCLOCK_TARGET_SERVER_BIN or on the path."""
    named = os.environ.get("WATERCLOCK_TARGET_SERVER_BIN") or "redis-server"
    binary = shutil.which(named)
    if binary is None:
        return None
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    return Path(binary) if re.search(r"Redis server v=7\.", said) else None


@pytest.fixture(scope="session", params=["the same", "redis 7"])
def there(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    """The server that deployments move to."""
    binary = None
    if request.param == "redis 7" and (binary := redis_7()) is None:
        pytest.skip("no Redis 7: apt-get install redis-server, or WATERCLOCK_TARGET_SERVER_BIN")
    folder = tmp_path_factory.mktemp("there")
    with EmbeddedServer(folder, binary=binary, appendonly=False) as server:
        yield server


class Target:
    """An empty deployment on the other server."""

    def __init__(self, server: EmbeddedServer, shards: int) -> None:
        self._config = Config(redis_url=server.url, shards=shards)

    async def __aenter__(self) -> Store:
        async with connect(self._config.redis_url) as client:
            await client.flushall()
        self._store = await Store.open(self._config)
        return self._store

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await check_invariants(self._store)
        finally:
            await self._store.close()


@pytest.fixture
async def target(there: EmbeddedServer) -> AsyncIterator[Store]:
    async with Target(there, 3) as store:
        yield store


async def carry(source: Store, target: Store) -> None:
    await freeze(source, Phase.FROZEN)
    await import_lines(target, export_lines(source))


@pytest.mark.parametrize("shards", SHARDS_THERE)
async def test_all_that_a_deployment_holds_is_the_same_on_the_other_server(
    store: Store, there: EmbeddedServer, shards: int
) -> None:
    await busy(store)
    before = await content(store)
    assert before["held"].keys() > {f"plain@{NOW}"}
    assert before["outbox"]
    async with Target(there, shards) as target:
        await carry(store, target)
        after = await content(target)
        assert after.keys() == before.keys()
        for key, value in before.items():
            assert after[key] == value, key
        assert await read_phase(target.client) is None
        assert not [s for s in target.layout.shards if await target.client.exists(s.frozen)]


async def test_a_deployment_that_comes_back_is_the_one_that_left(
    store: Store, target: Store
) -> None:
    await busy(store)
    before = await content(store)
    await carry(store, target)
    await store.client.flushall()
    async with await Store.open(store.config) as home:
        await carry(target, home)
        assert await content(home) == before


async def test_what_a_worker_held_is_taken_over_there_as_its_next_delivery(
    store: Store, target: Store
) -> None:
    deliveries = await busy(store)
    await carry(store, target)
    taken: dict[str, Delivery] = {}
    for shard in target.layout.shards:
        reclaimed = await reclaim_executions(target, "default", shard, "heir", NOW)
        taken |= {delivery.execution_id: delivery for delivery in reclaimed.deliveries}
    for delivery in deliveries:
        heir = taken[delivery.execution_id]
        assert (heir.attempt, heir.payload) == (delivery.attempt, delivery.payload)
        assert heir.deliveries == delivery.deliveries + 1
        if heir.job_id != "plain":  # it has inputs that no script gave it, and so none takes
            assert await complete_executions(target, [result(heir)], NOW) == [Answer.DONE]
    with pytest.raises(Frozen):
        await complete_executions(store, [result(deliveries[0])], NOW)


async def test_what_a_worker_held_of_a_job_that_was_deleted_stays_behind(
    store: Store, target: Store
) -> None:
    await create_jobs(store, [at_once("gone"), at_once("anew")])
    await take(store)
    await delete_job(store, "gone")
    await delete_job(store, "anew")
    await create_jobs(store, [at_once("anew")])
    await carry(store, target)
    assert await count_held(target) == 0
    assert [(d.job_id, d.deliveries) for d in await take(target)] == [("anew", 1)]


async def test_what_effects_gave_is_kept_no_longer_there_than_here(
    store: Store, target: Store
) -> None:
    await busy(store)
    execution_id = f"effect@{NOW}"
    here = store.layout.shard_of("effect").effects(execution_id)
    there = target.layout.shard_of("effect").effects(execution_id)
    await store.client.pexpire(here, 1_000_000)
    await carry(store, target)
    assert 900_000 < await target.client.pttl(there) <= 1_000_000


async def test_what_waited_is_read_there_in_its_order_and_once(store: Store, target: Store) -> None:
    names = [f"job-{n}" for n in range(500)]
    await create_jobs(store, [at_once(name) for name in names if name])
    await carry(store, target)
    read = [d for _ in range(3) for d in await take(target, count=400)]
    assert sorted(d.job_id for d in read) == sorted(names)
    for source in store.layout.shards:
        for shard in target.layout.shards:
            both = [
                name
                for name in names
                if store.layout.shard_of(name) is source and target.layout.shard_of(name) is shard
            ]
            assert [d.job_id for d in read if d.job_id in both] == both


async def test_jobs_fire_there_at_the_time_that_was_next_here(store: Store, target: Store) -> None:
    await create_jobs(store, [registration("job-0", overlap=Overlap.ALLOW)])
    await fire(store, store.layout.shard_of("job-0"))
    await carry(store, target)
    shard = target.layout.shard_of("job-0")
    assert (await fire(target, shard, NOW)).fired == 0
    assert (await fire(target, shard, NOW + MINUTE)).fired == 1
    assert [d.nominal_at for d in await take(target)] == [NOW, NOW + MINUTE]
    assert (await get_job(target, "job-0")).job.next_run_at == NOW + 2 * MINUTE


async def test_what_is_limited_lets_nothing_in_there_before_permits_are_granted(
    store: Store, target: Store
) -> None:
    fields = {"slots:q/default": "5", "tokens:h/a.test": "3", "full:h/a.test": str(NOW)}
    await grant(store, store.layout.shard_of("job-0"), fields)
    await create_jobs(store, [at_once("job-0"), registration("job-1")])
    await carry(store, target)
    home = target.layout.shard_of("job-0")
    gates = [(await read_shard(target, s)).get("gates", {}) for s in target.layout.shards]
    assert [g["slots:q/default"] for g in gates] == ["0"] * 3
    assert [g["tokens:h/a.test"] for g in gates] == ["0"] * 3
    assert gates[home.index]["live:q/default"] == "1"
    assert [g.get("full:h/a.test") for g in gates] == [str(NOW), None, None]
    await fire(target, target.layout.shard_of("job-1"))
    assert [d.job_id for d in await take(target)] == ["job-0"]


# Nothing happens on a server that is left


async def test_a_frozen_deployment_changes_nothing_and_hands_nothing_out(store: Store) -> None:
    deliveries = await busy(store)
    shard = store.layout.shard_of("job-0")
    await freeze(store, Phase.FROZEN)
    before = await content(store)
    for attempt in (
        lambda: create_jobs(store, [registration("new")]),
        lambda: lease(store, shard, "s9"),
        lambda: complete_executions(store, [result(deliveries[0])], NOW),
        lambda: heartbeat_executions(store, deliveries),
        lambda: reclaim_executions(store, "default", shard, "w9", NOW),
        lambda: delete_job(store, "paused"),
        lambda: run_job(store, "paused", NOW),
    ):
        with pytest.raises(Frozen):
            await attempt()
    assert await take(store, "w9") == []
    assert await content(store) == before


async def test_work_that_has_begun_ends_while_a_deployment_drains(store: Store) -> None:
    await create_jobs(store, [at_once(name) for name in job_ids(store, 2)])
    [delivery] = await take(store, count=1)
    await freeze(store, Phase.DRAINING)
    assert await take(store) == []
    assert all(await heartbeat_executions(store, [delivery]))
    assert await record_effect(store, delivery, "charge", b"1") == b"1"
    promise = Promise(delivery.execution_id, 1, NOW, NOW + MINUTE)
    assert await report_running(store, promise, NOW, NOW + MINUTE)
    assert await hand_back_executions(store, [replace(delivery, consumer="w9")]) == [False]
    with pytest.raises(Frozen):
        await reclaim_executions(store, "default", store.layout.shards[delivery.shard], "w9", NOW)
    assert await count_held(store) == 1
    assert await complete_executions(store, [result(delivery)], NOW) == [Answer.DONE]
    assert await count_held(store) == 0


async def test_a_deployment_that_is_thawed_goes_on_where_it_stood(store: Store) -> None:
    await create_jobs(store, [at_once(f"job-{n}") for n in range(20)])
    held = await take(store, count=1)
    await create_jobs(store, [at_once("urgent", priority=Priority.HIGH)])
    await freeze(store, Phase.DRAINING)
    await freeze(store, Phase.FROZEN)
    await freeze(store, Phase.FROZEN)
    assert await take(store) == []
    await thaw(store)
    await thaw(store)
    rest = await take(store)
    assert sorted(d.job_id for d in [*held, *rest]) == sorted(f"job-{n}" for n in range(20))
    assert [d.job_id for d in await take(store, stream="default:high")] == ["urgent"]
    answers = await complete_executions(store, [result(d) for d in held], NOW)
    assert set(answers) == {Answer.DONE}


@pytest.mark.parametrize("phase", Phase)
async def test_no_process_starts_on_a_deployment_that_is_stopped(
    store: Store, phase: Phase
) -> None:
    await freeze(store, phase)
    with pytest.raises(Unusable, match="deployment on this server"):
        await Store.open(store.config)
    await thaw(store)
    async with await Store.open(store.config):
        pass


async def test_a_deployment_that_is_stopped_drains_until_nothing_is_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move, "SETTLE_MS", 0)
    monkeypatch.setattr(move, "POLL_S", 0)
    await create_jobs(store, [at_once("job-0"), at_once("job-1")])
    deliveries = await take(store)
    heard = []

    async def end_one() -> None:
        await complete_executions(store, [result(deliveries.pop())], NOW)

    tasks = []

    def tell(held: int) -> None:
        heard.append(held)
        if deliveries:
            tasks.append(asyncio.ensure_future(end_one()))

    assert await move.stop(store, 20_000, tell) == 0
    assert (heard[0], heard[-1]) == (2, 0)
    phase = await read_phase(store.client)
    assert phase is Phase.FROZEN


async def test_what_does_not_end_in_time_is_counted_and_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move, "SETTLE_MS", 0)
    await create_jobs(store, [at_once("job-0")])
    await take(store)
    assert await move.stop(store, 0) == 1
    assert await move.stop(store, 0) == 1


# What cannot be carried is refused


async def test_a_server_in_use_is_no_target_and_works_on(store: Store, target: Store) -> None:
    await create_jobs(store, [at_once("job-0")])
    await create_jobs(target, [at_once("job-1")])
    with pytest.raises(Conflict, match="holds a deployment already"):
        await carry(store, target)
    assert await read_phase(target.client) is None
    assert [d.job_id for d in await take(target)] == ["job-1"]


async def test_a_server_that_comes_into_use_at_the_last_moment_works_on(
    store: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def freeze_late(there: Store, phase: Phase) -> None:
        await create_jobs(there, [at_once("job-1")])
        await freeze(there, phase)

    monkeypatch.setattr(writing, "freeze", freeze_late)
    with pytest.raises(Conflict, match="holds a deployment already"):
        await carry(store, target)
    assert await read_phase(target.client) is None
    assert [d.job_id for d in await take(target)] == ["job-1"]


async def test_a_deployment_that_was_left_is_no_target(store: Store, target: Store) -> None:
    await create_jobs(store, [at_once("job-0")])
    await create_jobs(target, [at_once("job-1")])
    await freeze(target, Phase.FROZEN)
    with pytest.raises(Conflict, match="holds a deployment already"):
        await carry(store, target)
    assert await read_phase(target.client) is Phase.FROZEN


async def test_an_import_that_was_killed_before_its_first_write_is_run_again(
    store: Store, target: Store
) -> None:
    await create_jobs(store, [at_once("job-0")])
    await freeze(target, Phase.FROZEN)
    await carry(store, target)
    assert [d.job_id for d in await take(target)] == ["job-0"]


async def test_a_job_without_its_plan_stops_the_export_and_is_named(store: Store) -> None:
    await create_jobs(store, [registration("job-0")])
    shard = store.layout.shard_of("job-0")
    plans = await store.client.hgetall(shard.plans)
    await store.client.delete(shard.plans)
    with pytest.raises(Unusable, match="job job-0 has no record or no plan"):
        await lines_of(store)
    await store.client.hset(shard.plans, mapping=plans)


@pytest.mark.parametrize("starts", ["before", "meanwhile"])
async def test_a_worker_that_is_started_on_the_target_gets_nothing_before_it_opens(
    store: Store, target: Store, monkeypatch: pytest.MonkeyPatch, starts: str
) -> None:
    monkeypatch.setattr(writer, "BATCH_COMMANDS", 1)
    await create_jobs(store, [at_once(f"job-{n}") for n in range(9)])
    await take(store, count=1)
    if starts == "before":
        assert await take(target) == []
    await lease(target, target.layout.shards[0])
    await signing_key(target)
    await freeze(store, Phase.FROZEN)
    early = []

    async def lines() -> AsyncIterator[bytes]:
        async for line in export_lines(store):
            early.extend(await take(target))
            yield line

    await import_lines(target, lines())
    assert early == []
    held = await count_held(target)
    assert held == await count_held(store) > 0
    assert len(await take(target)) == 9 - held


async def spoil(lines: list[bytes], way: str) -> list[bytes]:
    match way:
        case "no last line":
            return lines[:-1]
        case "half a line":
            return [*lines[:-1], lines[-1][:-5]]
        case "a record less":
            return [*lines[:5], *lines[6:]]
        case "a record twice":
            return [*lines[:5], lines[4], *lines[5:]]
        case "another value":
            return [line.replace(b"minutely-7", b"minutely-8") for line in lines]
        case "more behind it":
            return [*lines, lines[-1]]
        case "no first line":
            return lines[1:]
        case "a newer format":
            return [lines[0].replace(b'"format":2', b'"format":3'), *lines[1:]]
        case "an unknown kind":
            return [lines[0], b'{"kind":"odd"}\n', *lines[1:]]
        case "a key of its own choice":
            return [lines[0], b'{"kind":"hash","name":"layout","fields":["a","b"]}\n', *lines[1:]]
        case "no JSON":
            return [lines[0], b"hello\n", *lines[1:]]
        case "a record without its parts":
            return [lines[0], b'{"kind":"job","id":"a"}\n', *lines[1:]]
    raise AssertionError(way)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("no last line", "cut off after line"),
        ("half a line", "cut off"),
        ("a record less", "was changed"),
        ("a record twice", "was changed"),
        ("another value", "was changed"),
        ("more behind it", "after the last line"),
        ("no first line", "line 1: this is no export"),
        ("a newer format", "format 3, and this release reads format 2"),
        ("an unknown kind", "line 2: records of kind 'odd'"),
        ("a key of its own choice", "line 2: 'layout' is no hash"),
        ("no JSON", "line 2: the line is no record"),
        ("a record without its parts", "line 2: a wrong record: KeyError"),
    ],
)
async def test_an_export_that_is_not_whole_opens_nothing_and_the_whole_one_does(
    store: Store, target: Store, monkeypatch: pytest.MonkeyPatch, way: str, said: str
) -> None:
    monkeypatch.setattr(writer, "BATCH_COMMANDS", 100)
    await busy(store)
    await freeze(store, Phase.FROZEN)
    lines = await lines_of(store)
    with pytest.raises(BadInput, match=said):
        await import_lines(target, each(await spoil(lines, way)))
    with pytest.raises(Unusable, match="run the import again"):
        await Store.open(target.config)
    await import_lines(target, each(lines))
    assert await content(target) == await content(store)


async def test_an_import_that_only_has_to_open_writes_nothing(store: Store, target: Store) -> None:
    await create_jobs(store, [at_once("job-0")])
    await carry(store, target)
    before = await content(target)
    await freeze(target, Phase.OPENING)
    assert not await import_lines(target, export_lines(store))
    assert await content(target) == before
    assert await read_phase(target.client) is None


async def test_a_key_that_this_release_does_not_know_stops_the_export(store: Store) -> None:
    await store.client.set(store.layout.shards[0].jobs.replace("jobs", "novelty"), "1")
    with pytest.raises(Unusable, match="novelty' is of no kind"):
        await lines_of(store)


async def test_an_empty_server_and_half_an_import_are_no_source(store: Store) -> None:
    await freeze(store, Phase.IMPORTING)
    with pytest.raises(Unusable, match="half an import"):
        async with open_source(store.config):
            pass
    await store.client.flushall()
    with pytest.raises(Unusable, match="no deployment on the server"):
        async with open_source(store.config):
            pass
    assert await store.client.dbsize() == 0


def test_each_kind_of_record_has_one_who_reads_it_and_one_who_writes_it() -> None:
    assert READERS.keys() == WRITERS.keys() == kinds.records()


def test_bytes_that_are_no_text_come_back() -> None:
    record = {"kind": "job", "fields": [b"a", b"\xff\x00", b"\x00", "ä".encode()], "n": 1.5}
    assert codec.load_line(codec.dump_line(record)) == {
        "kind": "job",
        "fields": ["a", b"\xff\x00", "\x00", "ä"],
        "n": 1.5,
    }
