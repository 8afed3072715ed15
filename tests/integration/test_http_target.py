"""The http target against a real server: what is sent, and what each kind of answer comes to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from engine import codec
from engine.model import Delivery, HttpTarget, Target, WorkerTarget
from engine.targets import Attempted
from engine.targets.http import EXCERPT_BYTES, HttpRunner

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SECRET = "token=hunter2"
PAYLOAD = b'{"n":1}'
AT = 1_800_000_000_042


@pytest.fixture
async def runner() -> AsyncIterator[HttpRunner]:
    runner = HttpRunner("9.9")
    yield runner
    await runner.close()


def delivery(target: Target, attempt: int = 1) -> Delivery:
    return Delivery(
        shard=0,
        queue="http",
        entry_id="1-0",
        consumer="w1",
        deliveries=1,
        execution_id=f"nightly@{AT}",
        attempt=attempt,
        due_at=AT,
        target=codec.dump_target(target),
        payload=PAYLOAD,
        retry=b"",
    )


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve every path with `handler`; yield a URL whose query is a secret."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        yield f"{server.make_url('/run')}?{SECRET}"


@asynccontextmanager
async def answering(
    *chunks: bytes, to: bytes = PAYLOAD, endless: bytes = b""
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Answer what ends in `to` with raw bytes and close, or go on with `endless` while somebody
    listens; yield the URL, and an event that tells that a connection is over."""
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(to)
            writer.writelines(chunks)
            while endless:
                writer.write(endless)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/run?{SECRET}", over


async def attempt(runner: HttpRunner, url: str, **more: Any) -> Attempted:
    """Return how one attempt went; whatever it says must not give away the URL's query."""
    attempted = await runner.run(delivery(HttpTarget(url, **more)))
    assert "hunter2" not in (attempted.error or "")
    return attempted


async def call(runner: HttpRunner, **target: Any) -> web.Request:
    """Return the request that an attempt makes; its body has been read."""
    seen: list[web.Request] = []

    async def note(request: web.Request) -> web.Response:
        await request.read()
        seen.append(request)
        return web.Response()

    async with serving(note) as url:
        job = delivery(HttpTarget(url, **target), attempt=3)
        assert await runner.run(job) == Attempted(True, 200)
    [request] = seen
    return request


# What is sent


async def test_it_posts_the_payload_and_says_which_execution_this_is(runner: HttpRunner) -> None:
    request = await call(runner)
    assert request.method == "POST"
    assert request.query_string == SECRET
    assert await request.read() == PAYLOAD
    ours = {name: value for name, value in request.headers.items() if name != "Host"}
    assert ours == {
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Length": "7",
        "Content-Type": "application/json",
        "Idempotency-Key": f"nightly@{AT}",
        "User-Agent": "waterclock/9.9",
        "Waterclock-Attempt": "3",
        "Waterclock-Job": "nightly",
        "Waterclock-Scheduled-For": "2027-01-15T08:00:00.042Z",
    }


@pytest.mark.parametrize("name", ["Content-Type", "content-type"])
async def test_a_jobs_own_headers_are_sent_and_its_content_type_counts(
    runner: HttpRunner, name: str
) -> None:
    request = await call(runner, headers={name: "text/plain", "Authorization": "Bearer x"})
    assert request.headers.getall("Content-Type") == ["text/plain"]
    assert request.headers["Authorization"] == "Bearer x"


async def test_a_job_cannot_change_what_it_is_known_by(runner: HttpRunner) -> None:
    request = await call(runner, headers={"idempotency-key": "mine", "Waterclock-Job": "other"})
    assert request.headers.getall("Idempotency-Key") == [f"nightly@{AT}"]
    assert request.headers.getall("Waterclock-Job") == ["nightly"]


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request(
    runner: HttpRunner,
) -> None:
    cookies: list[dict[str, str]] = []

    async def hand_out(request: web.Request) -> web.Response:
        cookies.append(dict(request.cookies))
        answer = web.Response()
        answer.set_cookie("session", "of one job")
        return answer

    async with serving(hand_out) as url:
        named = url.replace("127.0.0.1", "localhost")  # an address would get no cookies anyway
        await attempt(runner, named)
        await attempt(runner, named)
    assert cookies == [{}, {}]


# What comes back


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_success(runner: HttpRunner, status: int) -> None:
    async with serving(responding(status)) as url:
        assert await attempt(runner, url) == Attempted(True, status)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_what_may_pass_is_tried_again(runner: HttpRunner, status: int) -> None:
    async with serving(responding(status, "come back")) as url:
        expected = Attempted(False, status, f"HTTP {status}: come back")
        assert await attempt(runner, url) == expected


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 409, 410, 422, 499])
async def test_any_other_status_is_final(runner: HttpRunner, status: int) -> None:
    async with serving(responding(status)) as url:
        expected = Attempted(False, status, f"HTTP {status}", is_final=True)
        assert await attempt(runner, url) == expected


def responding(status: int, text: str = "") -> Handler:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    return respond


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_is_final(runner: HttpRunner, status: int) -> None:
    paths: list[str] = []

    async def redirect(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async with serving(redirect) as url:
        attempted = await attempt(runner, url)
    assert (attempted.status_code, attempted.is_final) == (status, True)
    assert paths == ["/run"]


async def test_the_error_excerpt_is_bounded_and_always_text(runner: HttpRunner) -> None:
    async with answering(
        b"HTTP/1.1 500 Oops\r\nContent-Length: 9000\r\n\r\n" + b"\xff\0" * 4_500
    ) as (url, _):
        attempted = await attempt(runner, url)
    assert attempted.status_code == 500
    assert 0 < len(attempted.error or "") <= EXCERPT_BYTES + len("HTTP 500: ")


@pytest.mark.parametrize("status", [200, 500])
async def test_an_endless_body_is_not_read_to_its_end(runner: HttpRunner, status: int) -> None:
    head = f"HTTP/1.1 {status} -\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with answering(head, endless=b"2000\r\n" + b"x" * 8_192 + b"\r\n") as (url, over):
        attempted = await attempt(runner, url, timeout_ms=5_000)
        assert (attempted.succeeded, attempted.status_code) == (status == 200, status)
        await asyncio.wait_for(over.wait(), 5)


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_an_answer_that_breaks_off_after_its_status_counts_by_its_status(
    runner: HttpRunner, status: int
) -> None:
    async with answering(f"HTTP/1.1 {status} -\r\nContent-Length: 100\r\n\r\n".encode()) as (
        url,
        _,
    ):
        attempted = await attempt(runner, url)
    assert (attempted.succeeded, attempted.status_code) == (status == 200, status)
    assert attempted.is_final is (status == 404)


# What does not come back


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [b"HTTP/1.1 20"],
        [b"220 mail.example ESMTP\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 99_999],
    ],
)
async def test_a_broken_answer_is_tried_again(runner: HttpRunner, chunks: list[bytes]) -> None:
    async with answering(*chunks) as (url, _):
        attempted = await attempt(runner, url)
    assert (attempted.succeeded, attempted.status_code) == (False, None)
    assert (attempted.error or "").startswith("connection: ")
    assert not attempted.is_final


async def test_a_refused_connection_is_tried_again(runner: HttpRunner) -> None:
    attempted = await attempt(runner, f"http://127.0.0.1:{unused_port()}/?{SECRET}")
    assert (attempted.error or "").startswith("connection: cannot connect: ")
    assert not attempted.is_final


async def test_a_name_that_nobody_knows_is_tried_again(runner: HttpRunner) -> None:
    attempted = await attempt(runner, f"http://nowhere.invalid/?{SECRET}")
    assert (attempted.error or "").startswith("connection: cannot connect: ")
    assert not attempted.is_final


async def test_plain_http_behind_an_https_url_is_tried_again(runner: HttpRunner) -> None:
    greeting = b"\x16\x03"  # how every TLS handshake begins
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", to=greeting) as (url, _):
        attempted = await attempt(runner, url.replace("http:", "https:"))
    assert (attempted.error or "").startswith("connection: ")
    assert not attempted.is_final


async def test_silence_ends_at_the_jobs_timeout(runner: HttpRunner) -> None:
    heard = asyncio.Event()

    async def keep_silent(request: web.Request) -> web.Response:
        heard.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(keep_silent) as url:
        started = time.monotonic()
        attempted = await attempt(runner, url, timeout_ms=100)
        assert 0.09 <= time.monotonic() - started < 5
    assert heard.is_set()
    assert attempted == Attempted(False, error="timeout: no answer within 100 ms")


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        (f"http://[broken/?{SECRET}", {}),
        (f"http:///no-host?{SECRET}", {}),
        (f"ftp://127.0.0.1/?{SECRET}", {}),
        (f"http://127.0.0.1:1/?{SECRET}", {"X": "a\r\nInjected: yes"}),
    ],
)
async def test_what_cannot_be_called_is_a_value_too(
    runner: HttpRunner, url: str, headers: dict[str, str]
) -> None:
    attempted = await attempt(runner, url, headers=headers)
    assert not attempted.succeeded
    assert attempted.error


async def test_an_execution_of_another_kind_is_refused_for_good(runner: HttpRunner) -> None:
    attempted = await runner.run(delivery(WorkerTarget()))
    assert (attempted.succeeded, attempted.is_final) == (False, True)


async def test_cancelling_an_attempt_ends_it(runner: HttpRunner) -> None:
    heard = asyncio.Event()

    async def keep_silent(request: web.Request) -> web.Response:
        heard.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(keep_silent) as url:
        attempting = asyncio.create_task(attempt(runner, url))
        await heard.wait()
        attempting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempting
