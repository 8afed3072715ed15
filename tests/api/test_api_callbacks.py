"""Callbacks: a target that promised to report goes on, ends once, and has its time for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, MINUTE, NOW, NOW_TEXT, Read, create, pointers, refused
from seeding import fire

from api.server import serve
from engine import codec
from engine.clock import ManualClock
from engine.codec import Promise
from engine.execution import Delivery
from engine.model import MAX_RESULT_BYTES
from engine.store import Store
from engine.store.executions import Answer, complete_executions, ensure_groups, read_ready
from engine.store.outcomes import accepted
from engine.store.reports import signing_key

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

EXECUTION = f"mail@{NOW}"
TARGET = {
    "type": "http",
    "url": "https://example.com/",
    "respond_async": True,
    "heartbeat_ms": 30_000,
}
RETRY = {"max_attempts": 2, "base_ms": 5_000, "jitter": "none"}
JOB = {**AT_ONCE, "target": TARGET, "retry": RETRY}
PROMISE = Promise(EXECUTION, 1, NOW, NOW + 10 * MINUTE)

Report = Callable[..., Awaitable[httpx.Response]]


async def start(client: httpx.AsyncClient, store: Store) -> Delivery:
    """Return the delivery of the job `mail` that a worker has."""
    await create(client, JOB)
    await ensure_groups(store, "http")
    shard = store.layout.shard_of("mail")
    [delivery] = await read_ready(store, [("http", shard)], "w0", 1, block=False)
    return delivery


async def accept(store: Store, delivery: Delivery) -> Answer:
    """Say as a worker that the target answered 202, and has 30 seconds for its next word."""
    promised = accepted(
        delivery, started_at=NOW, duration_ms=5, status_code=202, lapses_at=NOW + 30_000
    )
    [answer] = await complete_executions(store, [promised], NOW)
    return answer


@pytest.fixture
async def promised(client: httpx.AsyncClient, store: Store) -> None:
    """The attempt is accepted, and the target has the URL of `PROMISE`."""
    assert await accept(store, await start(client, store)) is Answer.DONE


@pytest.fixture
def report(client: httpx.AsyncClient, store: Store) -> Report:
    """Return a function that reports as the target that has the promise."""

    async def send(promise: Promise = PROMISE, **body: Any) -> httpx.Response:
        word = codec.dump_promise(promise, await signing_key(store))
        return await client.post(f"/v1/callbacks/{word}", json=body)

    return send


async def mail(client: httpx.AsyncClient) -> dict[str, Any]:
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    shown: dict[str, Any] = execution
    return shown


@pytest.mark.usefixtures("promised")
async def test_a_sign_of_life_gives_the_target_its_time_anew(
    client: httpx.AsyncClient, store: Store, clock: ManualClock, report: Report
) -> None:
    clock.advance(20_000)
    answer = await report(status="running")
    assert answer.json() == {
        "execution_id": EXECUTION,
        "attempt": 1,
        "status": "running",
        "lapses_at": "2027-01-15T08:00:50.000Z",
    }
    # Without it, the attempt would lapse at 30 s.
    shard = store.layout.shard_of("mail")
    await fire(store, shard, NOW + 49_999)
    assert await store.client.xlen(shard.ready("http")) == 0
    await fire(store, shard, NOW + 50_000)
    assert await store.client.xlen(shard.ready("http")) == 1
    assert (await mail(client))["attempts"] == []


@pytest.mark.usefixtures("promised")
async def test_a_sign_of_life_gives_no_time_beyond_the_promise(report: Report) -> None:
    answer = await report(replace(PROMISE, expires_at=NOW + 10_000), status="running")
    assert answer.json()["lapses_at"] == "2027-01-15T08:00:10.000Z"


@pytest.mark.usefixtures("promised")
async def test_a_target_that_succeeds_ends_the_execution(
    client: httpx.AsyncClient, clock: ManualClock, report: Report
) -> None:
    clock.advance(20_000)
    answer = await report(status="succeeded")
    expected = {"execution_id": EXECUTION, "attempt": 1, "status": "succeeded", "already": False}
    assert (answer.status_code, answer.json()) == (200, expected)
    execution = await mail(client)
    assert execution["status"] == "succeeded"
    [attempt] = execution["attempts"]
    shown = [attempt[name] for name in ("worker", "started_at", "duration_ms", "outcome")]
    assert shown == ["target", NOW_TEXT, 20_000, "succeeded"]


@pytest.mark.usefixtures("promised")
async def test_a_target_that_fails_is_called_again_by_the_jobs_policy(
    client: httpx.AsyncClient, clock: ManualClock, report: Report
) -> None:
    clock.advance(20_000)
    answer = await report(status="failed", error="disk full")
    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    execution = await mail(client)
    assert (execution["status"], execution["retry_at"]) == ("retrying", "2027-01-15T08:00:25.000Z")
    assert execution["attempts"][0]["error"] == "disk full"


@pytest.mark.usefixtures("promised")
async def test_a_final_failure_is_the_last(client: httpx.AsyncClient, report: Report) -> None:
    await report(status="failed", final=True)
    assert (await mail(client))["status"] == "dead"


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize(
    "body", [{"status": "succeeded"}, {"status": "failed"}, {"status": "failed", "final": True}]
)
async def test_the_same_end_sent_again_is_already_recorded(
    report: Report, clock: ManualClock, keyspace: Read, body: dict[str, Any]
) -> None:
    await report(**body)
    clock.advance(MINUTE)
    before = await keyspace()
    again = await report(**body)
    assert (again.status_code, again.json()["already"]) == (200, True)
    assert await keyspace() == before


async def test_a_repeat_is_told_so_where_the_deadline_has_passed_since(
    client: httpx.AsyncClient, store: Store, clock: ManualClock, report: Report
) -> None:
    policy = {**RETRY, "deadline_ms": MINUTE}
    await create(client, {**JOB, "retry": policy})
    await ensure_groups(store, "http")
    shard = store.layout.shard_of("mail")
    [delivery] = await read_ready(store, [("http", shard)], "w0", 1, block=False)
    await accept(store, delivery)
    assert (await report(status="failed")).json()["already"] is False
    clock.advance(2 * MINUTE)
    assert (await report(status="failed")).json()["already"] is True


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize("body", [{"status": "failed"}, {"status": "running"}])
async def test_another_word_after_the_end_is_stale(
    report: Report, keyspace: Read, body: dict[str, Any]
) -> None:
    await report(status="succeeded")
    before = await keyspace()
    refused(await report(**body), 409, "stale_delivery")
    assert await keyspace() == before


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize("status", ["running", "succeeded", "failed"])
async def test_a_word_on_another_attempt_is_stale(
    report: Report, keyspace: Read, status: str
) -> None:
    before = await keyspace()
    answer = await report(replace(PROMISE, attempt=2), status=status)
    refused(answer, 409, "stale_delivery")
    assert await keyspace() == before


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize("status", ["running", "succeeded", "failed"])
async def test_a_word_on_a_job_that_is_gone_is_stale(
    client: httpx.AsyncClient, report: Report, status: str
) -> None:
    await client.delete("/v1/jobs/mail")
    refused(await report(status=status), 409, "stale_delivery")


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize("status", ["running", "succeeded", "failed"])
async def test_a_promise_whose_time_is_over_is_gone(
    clock: ManualClock, report: Report, keyspace: Read, status: str
) -> None:
    clock.advance(10 * MINUTE - 1)
    assert (await report(status="running")).status_code == 200
    before = await keyspace()
    clock.advance(1)
    refused(await report(status=status), 410, "expired")
    assert await keyspace() == before


async def test_a_target_that_is_quicker_than_its_worker_ends_the_execution(
    client: httpx.AsyncClient, store: Store, report: Report
) -> None:
    delivery = await start(client, store)
    assert (await report(status="running")).status_code == 200
    assert (await report(status="succeeded")).json()["already"] is False
    assert await accept(store, delivery) is Answer.STALE
    assert (await mail(client))["status"] == "succeeded"


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda word: word[:-1],
        lambda word: word.replace(".", ""),
        lambda word: word.partition(".")[0] + ".",
        lambda word: ("A" if word[0] != "A" else "B") + word[1:],
        lambda _: "nonsense",
        lambda _: "é.é",
    ],
)
async def test_a_word_that_we_did_not_sign_is_refused(
    client: httpx.AsyncClient, store: Store, keyspace: Read, spoil: Callable[[str], str]
) -> None:
    word = codec.dump_promise(PROMISE, await signing_key(store))
    before = await keyspace()
    answer = await client.post(f"/v1/callbacks/{spoil(word)}", json={"status": "succeeded"})
    refused(answer, 400, "bad_input")
    assert await keyspace() == before


@pytest.mark.usefixtures("promised")
async def test_a_word_of_another_deployment_is_refused(
    client: httpx.AsyncClient, store: Store
) -> None:
    await signing_key(store)
    word = codec.dump_promise(PROMISE, b"another key of 32 bytes and more")
    answer = await client.post(f"/v1/callbacks/{word}", json={"status": "succeeded"})
    refused(answer, 400, "bad_input")


@pytest.mark.usefixtures("promised")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": "accepted"},
        {"status": "running", "error": "none"},
        {"status": "succeeded", "final": True},
        {"status": "failed", "more": 1},
    ],
)
async def test_a_wrong_report_is_refused_and_changes_nothing(
    report: Report, keyspace: Read, body: dict[str, Any]
) -> None:
    before = await keyspace()
    refused(await report(**body), 400, "bad_input")
    assert await keyspace() == before


async def test_the_word_is_never_logged(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    word = codec.dump_promise(PROMISE, await signing_key(store))
    config = store.config.model_copy(update={"port": 0})
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    with caplog.at_level(logging.DEBUG):
        async with asyncio.TaskGroup() as group:
            group.create_task(
                serve(config, stop, store=store, clock=clock, on_listening=port.set_result)
            )
            # httpx has a log of its own, and this is not about it.
            logging.getLogger("httpx").setLevel(logging.ERROR)
            logging.getLogger("httpcore").setLevel(logging.ERROR)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{await port}") as caller:
                for path in (word, "x" + word):
                    await caller.post(f"/v1/callbacks/{path}", json={"status": "succeeded"})
            stop.set()
    assert word.partition(".")[0] not in caplog.text


@pytest.mark.usefixtures("promised")
async def test_the_failure_of_one_attempt_is_none_of_the_next(
    report: Report, keyspace: Read
) -> None:
    await report(status="failed")
    before = await keyspace()
    answer = await report(replace(PROMISE, attempt=2), status="failed")
    refused(answer, 409, "stale_delivery")
    assert await keyspace() == before


@pytest.mark.usefixtures("promised")
async def test_a_target_that_reports_success_gives_a_result(
    client: httpx.AsyncClient, store: Store, report: Report
) -> None:
    await create(client, {"target": {"type": "worker"}, "job_id": "b", "depends_on": ["mail"]})
    large = await report(status="succeeded", result="x" * MAX_RESULT_BYTES)
    assert pointers(refused(large, 400, "bad_input")) == ["/result"]
    for status in ("failed", "running"):
        early = await report(status=status, result=1)
        assert pointers(refused(early, 400, "bad_input")) == ["/result"]
    assert (await report(status="succeeded", result={"n": 1})).status_code == 200
    [(_, fields)] = await store.client.xrange(store.layout.shard_of("mail").outbox)
    assert (fields[b"outcome"], fields[b"result"]) == (b"succeeded", b'{"n":1}')
