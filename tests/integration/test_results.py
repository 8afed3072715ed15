"""Results: what an attempt gives, and how those that depend on its job are handed it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fleet import ON_LOOPBACK, ScriptedRunner, hire, keep, settle
from seeding import NOW

from engine import codec
from engine.clock import ManualClock
from engine.depends import Depends, Upstream
from engine.errors import BadInput
from engine.execution import Delivery
from engine.model import MAX_RESULT_BYTES, HttpTarget, Overlap, ShellTarget, Target, WorkerTarget
from engine.registration import Timing, register
from engine.relay import Relay
from engine.store import Store
from engine.store.jobs import run_job
from engine.store.registering import register_job
from engine.targets import Attempted
from engine.targets.http import HttpRunner
from engine.targets.shell import ShellRunner

UPSTREAM = b'{"a":{"rows":3}}'
TAKEN = {"Waterclock-Result": "body"}


def delivery(target: Target, *, payload: bytes = b"null", upstream: bytes = b"") -> Delivery:
    return Delivery(
        shard=0,
        queue="http",
        entry_id="1-0",
        consumer="w1",
        deliveries=1,
        execution_id=f"b@{NOW}",
        attempt=1,
        due_at=NOW,
        target=codec.dump_target(target),
        payload=payload,
        retry=b"",
        upstream=upstream,
    )


@pytest.fixture
async def runner() -> AsyncIterator[HttpRunner]:
    runner = HttpRunner("9.9", guard=ON_LOOPBACK, clock=ManualClock(NOW))
    yield runner
    await runner.close()


@asynccontextmanager
async def serving(answer: web.Response) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Give one answer; yield where, and the bodies that came."""
    bodies: list[bytes] = []

    async def handle(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return answer

    app = web.Application()
    app.router.add_post("/", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/")), bodies


async def answered(runner: HttpRunner, answer: web.Response) -> Attempted:
    """Return what an attempt comes to that is answered so."""
    async with serving(answer) as (url, _):
        return await runner.run(delivery(HttpTarget(url)))


# What goes out


@pytest.mark.parametrize(
    ("payload", "upstream", "sent"),
    [
        (b"null", UPSTREAM, b'{"upstream":{"a":{"rows":3}}}'),
        (b'{"n":1}', UPSTREAM, b'{"n":1}'),
        (b"null", b"", b"null"),
    ],
)
async def test_an_http_target_without_a_payload_is_sent_what_upstream_jobs_gave(
    runner: HttpRunner, payload: bytes, upstream: bytes, sent: bytes
) -> None:
    async with serving(web.Response()) as (url, bodies):
        await runner.run(delivery(HttpTarget(url), payload=payload, upstream=upstream))
    assert bodies == [sent]


@pytest.mark.parametrize(("upstream", "said"), [(UPSTREAM, UPSTREAM.decode()), (b"", "none")])
async def test_a_command_has_what_upstream_jobs_gave_in_its_environment(
    upstream: bytes, said: str
) -> None:
    runner = ShellRunner(clock=ManualClock(NOW))
    target = ShellTarget('echo "${WATERCLOCK_UPSTREAM-none}"')
    attempted = await runner.run(delivery(target, upstream=upstream))
    await runner.close()
    assert attempted.output == f"{said}\n"


# What an http target gives


async def test_the_body_of_an_answer_that_says_so_is_the_result(runner: HttpRunner) -> None:
    body = web.Response(text=' { "rows": [1, "ü"] } ', headers=TAKEN)
    assert await answered(runner, body) == Attempted(True, 200, gave='{"rows":[1,"ü"]}'.encode())
    null = web.Response(text="null", headers=TAKEN)
    assert await answered(runner, null) == Attempted(True, 200)


async def test_any_other_body_is_no_result(runner: HttpRunner) -> None:
    for headers in ({}, {"Waterclock-Result": "none"}):
        attempted = await answered(runner, web.Response(text="[1]", headers=headers))
        assert attempted == Attempted(True, 200)
    busy = await answered(runner, web.Response(status=503, text="[1]", headers=TAKEN))
    assert (busy.succeeded, busy.gave) == (False, b"")


async def test_a_result_of_16_kib_is_taken_and_one_byte_more_fails_for_good(
    runner: HttpRunner,
) -> None:
    most = f'"{"x" * (MAX_RESULT_BYTES - 2)}"'
    taken = await answered(runner, web.Response(text=most, headers=TAKEN))
    assert taken == Attempted(True, 200, gave=most.encode())
    for text in (f"{most} ", "", "{", "NaN"):
        attempted = await answered(runner, web.Response(text=text, headers=TAKEN))
        assert (attempted.succeeded, attempted.is_final, attempted.kind) == (False, True, "result")
        assert attempted.error == "result: the body is no JSON of 16384 bytes at the most"


async def test_a_result_that_is_broken_off_fails_and_is_tried_again(runner: HttpRunner) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"null")
        writer.write(b"HTTP/1.1 200 OK\r\nWaterclock-Result: body\r\nContent-Length: 9\r\n\r\n[1]")
        writer.close()

    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        attempted = await runner.run(delivery(HttpTarget(f"http://127.0.0.1:{port}/")))
    assert (attempted.succeeded, attempted.is_final) == (False, False)
    assert attempted.error == "connection: broken off before the result was there"


@pytest.mark.parametrize("value", [{1, 2}, {"a": object()}, "x" * MAX_RESULT_BYTES])
def test_what_cannot_be_a_result_is_refused_by_name(value: object) -> None:
    with pytest.raises(BadInput, match="result") as refusal:
        codec.dump_result(value)
    assert refusal.value.field == "result"


# From worker to worker


async def test_what_a_runner_gives_comes_to_the_next_ones_delivery(store: Store) -> None:
    clock = ManualClock(NOW)
    for name, upstream in [("a", None), ("b", "a"), ("c", "b")]:
        made = register(
            now=NOW,
            job_id=name,
            target=WorkerTarget(),
            timing=Timing(None if upstream else "0 0 1 1 *"),
            depends=Depends((Upstream(upstream),)) if upstream else None,
            overlap=Overlap.ALLOW,
        )
        assert await register_job(store, made)
    keeper, _ = keep(store, clock)
    await keeper.step()
    relay = Relay(store, clock, keeper)
    given = Attempted(True, 200, gave=b'{"n":[1]}')
    runner = ScriptedRunner({"a": [given], "b": [replace(given, gave=b"2")]})
    worker, _ = hire(store, clock, runner)
    await run_job(store, "a", NOW)
    for _ in range(4):
        await worker.fetch(block=False)
        await settle(worker)
        await worker.report()
        await relay.step(block=False)
    assert [(one.job_id, one.upstream) for one in runner.seen] == [
        ("a", b""),
        ("b", b'{"a":{"n":[1]}}'),
        ("c", b'{"b":2}'),
    ]
