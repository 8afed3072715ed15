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
from fleet import ON_LOOPBACK
from pydantic import ValidationError

from api.forms import job_body, registration_of
from api.schemas import CreateJob
from engine import codec
from engine.backoff import Retry
from engine.clock import ManualClock
from engine.execution import Delivery, ErrorKind
from engine.model import HttpTarget, Target, WorkerTarget
from engine.plan import NO_CALENDARS
from engine.registration import Registration
from engine.store.jobs import StoredJob
from engine.targets import Attempted
from engine.targets.http import EXCERPT_BYTES, HttpRunner

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SECRET = "token=hunter2"
PAYLOAD = b'{"n":1}'
AT = 1_800_000_000_042
CALLBACK = "http://127.0.0.1:8787/internal/report?token=hunter2"


@pytest.fixture
async def runner() -> AsyncIterator[HttpRunner]:
    runner = HttpRunner(
        "9.9", guard=ON_LOOPBACK, clock=ManualClock(AT), callback_url=lambda _: CALLBACK
    )
    yield runner
    await runner.close()


def delivery(
    target: Target,
    attempt: int = 1,
    *,
    payload: bytes = PAYLOAD,
    retry: Retry | None = None,
    began_at: int | None = None,
) -> Delivery:
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
        payload=payload,
        retry=codec.dump_retry(retry or Retry()),
        began_at=began_at,
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


# What is asked for


SENT = {
    "type": "http",
    "url": "https://example.com/",
    "follow_redirects": 10,
    "respond_async": True,
    "heartbeat_ms": 1_000,
    "signing": "job",
    "template": True,
}
RETRY = {"backoff": "list", "waits_ms": [10, 20], "on": [503, "timeout"], "deadline_ms": 9}


def registered(**body: Any) -> Registration:
    taken = CreateJob.model_validate({"job_id": "a", **body}, context={"clock": ManualClock(AT)})
    return registration_of(taken, AT, NO_CALENDARS)


def test_every_field_of_target_and_policy_is_taken_and_can_be_sent_again() -> None:
    made = registered(target=SENT, retry=RETRY)
    assert made.job.target == HttpTarget(
        "https://example.com/",
        follow_redirects=10,
        respond_async=True,
        heartbeat_ms=1_000,
        signing="job",
        template=True,
    )
    assert made.job.retry == Retry.from_dict(RETRY)
    assert registered(**job_body(StoredJob(made.job, made.plan, []))) == made


@pytest.mark.parametrize(
    "wrong",
    [
        {"follow_redirects": 11},
        {"follow_redirects": -1},
        {"follow_redirects": True},
        {"respond_async": 1},
        {"heartbeat_ms": 999},
        {"heartbeat_ms": None},
        {"signing": "me"},
        {"template": "yes"},
    ],
)
def test_a_field_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        registered(target={**SENT, **wrong})
    [fault] = refused.value.errors()
    assert fault["loc"] == ("target", "http", *wrong)


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
        "traceparent": "00-fcc1c461dea4f104d7fabf2fa8538007-1361eaf1bc46f895-01",
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
        expected = Attempted(False, status, f"HTTP {status}: come back", kind=ErrorKind.STATUS)
        assert await attempt(runner, url) == expected


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 409, 410, 422, 499])
async def test_any_other_status_is_final(runner: HttpRunner, status: int) -> None:
    async with serving(responding(status)) as url:
        expected = Attempted(False, status, f"HTTP {status}", True, ErrorKind.STATUS)
        assert await attempt(runner, url) == expected


def responding(status: int, text: str = "", **headers: str) -> Handler:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def respond(request: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers=named)

    return respond


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 7 ", 7_000),
        # AT is 2027-01-15 08:00:00.042
        ("Fri, 15 Jan 2027 08:00:30 GMT", 29_958),
        ("Fri, 15 Jan 2027 10:00:30 +0200", 29_958),
        ("Fri, 15 Jan 2027 08:00:30 -0000", 29_958),
        ("Fri, 15 Jan 2027 07:59:00 GMT", 0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("1" * 30, None),
        ("soon", None),
        ("Fri, 99 Jan 2027 08:00:30 GMT", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_the_wait_that_a_target_asks_for_is_told(
    runner: HttpRunner, status: int, text: str, expected: int | None
) -> None:
    async with serving(responding(status, Retry_After=text)) as url:
        assert (await attempt(runner, url)).retry_after_ms == expected


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


# Redirects


def redirecting(
    seen: list[web.Request], status: int, *places: str, last: Handler | None = None
) -> Handler:
    """Redirect to each of the places in turn, then answer as `last` does, or 200."""
    left = [*places]

    async def redirect(request: web.Request) -> web.StreamResponse:
        await request.read()
        seen.append(request)
        if left:
            return web.Response(status=status, headers={"Location": left.pop(0)})
        return await last(request) if last else web.Response()

    return redirect


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_is_final(runner: HttpRunner, status: int) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, status, "/elsewhere")) as url:
        attempted = await attempt(runner, url)
    assert (attempted.status_code, attempted.is_final) == (status, True)
    assert attempted.kind == ErrorKind.REDIRECT
    assert [request.path for request in seen] == ["/run"]


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_that_repeats_the_request_is_followed_if_the_job_allows_it(
    runner: HttpRunner, status: int
) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, status, "/a", "b?c=d")) as url:
        headers = {"Authorization": "Bearer x"}
        attempted = await attempt(runner, url, follow_redirects=2, headers=headers)
    assert attempted == Attempted(True, 200)
    assert [(request.method, request.path_qs) for request in seen[1:]] == [
        ("POST", "/a"),
        ("POST", "/b?c=d"),
    ]
    for request in seen:
        assert await request.read() == PAYLOAD
        assert request.headers["Idempotency-Key"] == f"nightly@{AT}"
        assert request.headers["Authorization"] == "Bearer x"


async def test_the_answer_at_the_end_of_redirects_decides(runner: HttpRunner) -> None:
    last = responding(503, "later", Retry_After="3")
    async with serving(redirecting([], 307, "/a", last=last)) as url:
        attempted = await attempt(runner, url, follow_redirects=1)
    assert attempted == Attempted(
        False, 503, "HTTP 503: later", kind=ErrorKind.STATUS, retry_after_ms=3_000
    )


@pytest.mark.parametrize("allowed", [1, 3])
async def test_no_more_redirects_are_followed_than_the_job_allows(
    runner: HttpRunner, allowed: int
) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, 308, *["/run"] * 9)) as url:
        attempted = await attempt(runner, url, follow_redirects=allowed)
    assert attempted.error == f"redirect: HTTP 308, and this job follows {allowed}"
    assert (attempted.kind, attempted.is_final) == (ErrorKind.REDIRECT, True)
    assert len(seen) == allowed + 1


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_drops_the_payload_is_never_followed(
    runner: HttpRunner, status: int
) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, status, "/a")) as url:
        attempted = await attempt(runner, url, follow_redirects=9)
    assert (attempted.kind, attempted.status_code) == (ErrorKind.REDIRECT, status)
    assert attempted.is_final
    assert len(seen) == 1


@pytest.mark.parametrize(
    "place",
    [
        f"ftp://127.0.0.1/?{SECRET}",
        f"http://user:{SECRET}@127.0.0.1/",
        f"http://user@127.0.0.1/?{SECRET}",
        f"http://:{SECRET}@127.0.0.1/",
        f"http://[broken/?{SECRET}",
        "file:///etc/passwd",
        "javascript:alert(1)",
    ],
)
async def test_a_redirect_to_what_cannot_be_called_is_final(runner: HttpRunner, place: str) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, 307, place)) as url:
        attempted = await attempt(runner, url, follow_redirects=9)
    assert (attempted.kind, attempted.status_code) == (ErrorKind.REDIRECT, 307)
    assert attempted.is_final
    assert len(seen) == 1


async def test_a_redirect_without_a_place_is_final(runner: HttpRunner) -> None:
    async with serving(responding(307)) as url:
        attempted = await attempt(runner, url, follow_redirects=9)
    assert (attempted.kind, attempted.is_final) == (ErrorKind.REDIRECT, True)


async def test_a_jobs_own_headers_do_not_go_to_another_origin_not_even_on_the_way_back(
    runner: HttpRunner,
) -> None:
    here: list[web.Request] = []
    there: list[web.Request] = []
    places: list[str] = []

    async def send_back(request: web.Request) -> web.StreamResponse:
        return await redirecting(there, 307, *places)(request)

    async with serving(send_back) as away, serving(redirecting(here, 307, away)) as home:
        places.append(home)
        headers = {"Authorization": "Bearer x", "X-Key": "y", "content-type": "text/plain"}
        attempted = await attempt(runner, home, follow_redirects=2, headers=headers)
    assert attempted == Attempted(True, 200)
    first, last = here
    assert first.headers["Authorization"] == "Bearer x"
    for request in (*there, last):
        assert not {"Authorization", "X-Key"} & {*request.headers}
        assert request.headers.getall("Content-Type") == ["text/plain"]
        assert request.headers["Idempotency-Key"] == f"nightly@{AT}"
        assert await request.read() == PAYLOAD


# Targets that respond later


async def test_a_target_that_responds_later_is_told_where(runner: HttpRunner) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, 307, last=responding(202))) as url:
        attempted = await attempt(runner, url, respond_async=True)
    assert attempted == Attempted(True, 202, accepted=True)
    assert seen[0].headers["Prefer"] == "respond-async"
    assert seen[0].headers["Waterclock-Callback"] == CALLBACK


@pytest.mark.parametrize("status", [200, 201, 204])
async def test_a_target_that_could_respond_later_may_be_done_at_once(
    runner: HttpRunner, status: int
) -> None:
    async with serving(responding(status)) as url:
        assert await attempt(runner, url, respond_async=True) == Attempted(True, status)


async def test_no_target_is_called_that_could_not_report() -> None:
    seen: list[web.Request] = []
    runner = HttpRunner("9.9", guard=ON_LOOPBACK)
    async with serving(redirecting(seen, 307)) as url:
        attempted = await attempt(runner, url, respond_async=True)
    await runner.close()
    assert (attempted.kind, attempted.is_final, seen) == (ErrorKind.INTERNAL, False, [])


# What does not come back


def untold(attempted: Attempted, kind: ErrorKind, text: str) -> None:
    """Hold an attempt against one that failed in a way that may pass, with no status."""
    assert attempted == Attempted(False, error=f"{kind}: {text}", kind=kind)


@pytest.mark.parametrize("chunks", [[], [b"HTTP/1.1 20"], [b"HTTP/1.1 200 OK\r\nX: a"]])
async def test_an_answer_that_breaks_off_before_its_end_of_head_is_tried_again(
    runner: HttpRunner, chunks: list[bytes]
) -> None:
    async with answering(*chunks) as (url, _):
        untold(await attempt(runner, url), ErrorKind.CONNECTION, "closed without an answer")


@pytest.mark.parametrize(
    "chunk",
    [
        b"220 mail.example ESMTP\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 99_999,
    ],
)
async def test_an_answer_that_is_not_http_is_tried_again(runner: HttpRunner, chunk: bytes) -> None:
    async with answering(chunk) as (url, _):
        text = "the answer is not HTTP, or its head is too large"
        untold(await attempt(runner, url), ErrorKind.PROTOCOL, text)


async def test_a_refused_connection_is_tried_again(runner: HttpRunner) -> None:
    attempted = await attempt(runner, f"http://127.0.0.1:{unused_port()}/?{SECRET}")
    untold(attempted, ErrorKind.CONNECTION, "cannot connect: Connection refused")


async def test_a_name_that_nobody_knows_is_tried_again(runner: HttpRunner) -> None:
    attempted = await attempt(runner, f"http://nowhere.invalid/?{SECRET}")
    assert (attempted.kind, attempted.status_code) == (ErrorKind.DNS, None)
    assert (attempted.error or "").startswith("dns: ")
    assert not attempted.is_final


async def test_plain_http_behind_an_https_url_is_tried_again(runner: HttpRunner) -> None:
    greeting = b"\x16\x03"  # how every TLS handshake begins
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", to=greeting) as (url, _):
        attempted = await attempt(runner, url.replace("http:", "https:"))
    untold(attempted, ErrorKind.TLS, "no handshake: WRONG_VERSION_NUMBER")


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
    untold(attempted, ErrorKind.TIMEOUT, "no answer within 100 ms")


@pytest.mark.parametrize(
    ("deadline_ms", "began_at", "timeout_ms", "error"),
    [
        (100, None, 60_000, "deadline: no answer within 100 ms"),
        (5_100, AT - 5_000, 60_000, "deadline: no answer within 100 ms"),
        (60_000, AT, 100, "timeout: no answer within 100 ms"),
    ],
)
async def test_the_timeout_or_the_deadline_ends_an_attempt_whichever_comes_first(
    runner: HttpRunner, deadline_ms: int, began_at: int | None, timeout_ms: int, error: str
) -> None:
    async with answering(endless=b" ", to=b"never sent") as (url, _):
        target = HttpTarget(url, timeout_ms=timeout_ms)
        held = delivery(target, retry=Retry(deadline_ms=deadline_ms), began_at=began_at)
        attempted = await runner.run(held)
    kind = ErrorKind(error.partition(":")[0])
    is_final = kind is ErrorKind.DEADLINE
    assert attempted == Attempted(False, error=error, is_final=is_final, kind=kind)


async def test_nothing_is_sent_when_the_deadline_has_passed(runner: HttpRunner) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, 307)) as url:
        await attempt(runner, url)  # so that a connection is there to be used
        held = delivery(HttpTarget(url), retry=Retry(deadline_ms=5_000), began_at=AT - 5_000)
        attempted = await runner.run(held)
    assert attempted == Attempted(
        False, error="deadline: none of it was left", is_final=True, kind=ErrorKind.DEADLINE
    )
    assert len(seen) == 1


NO_REQUEST = Attempted(
    False, error="url: it cannot be called with this request", is_final=True, kind=ErrorKind.URL
)


@pytest.mark.parametrize(
    "url",
    [
        f"http://[broken/?{SECRET}",
        f"http:///no-host?{SECRET}",
        f"ftp://127.0.0.1/?{SECRET}",
        f"http://{'x' * 64}.example/?{SECRET}",
    ],
)
async def test_what_cannot_be_called_is_a_value_too(runner: HttpRunner, url: str) -> None:
    assert await attempt(runner, url) == NO_REQUEST


async def test_a_header_that_would_make_another_is_not_sent(runner: HttpRunner) -> None:
    seen: list[web.Request] = []
    async with serving(redirecting(seen, 307)) as url:
        headers = {"X": "a\r\nInjected: hunter2"}
        assert await attempt(runner, url, headers=headers) == NO_REQUEST
    assert seen == []


async def test_an_execution_of_another_kind_is_refused_for_good(runner: HttpRunner) -> None:
    attempted = await runner.run(delivery(WorkerTarget()))
    assert (attempted.kind, attempted.is_final) == (ErrorKind.INTERNAL, True)


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
