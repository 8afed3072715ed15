"""Targets that nobody should be made to call, as only the addresses of their names show, or where
they lead to: rows of the abuse list, each by its number. No connection is made: listeners on this
machine see that nobody comes."""

from __future__ import annotations

import asyncio
import logging
import ssl

import aiohttp
import calling
import httpx
import pytest
from calling import NOW, create
from certificates import Certificates
from fleet import ON_LOOPBACK
from reaching import Names, listening, reaching, target, work
from test_http_abuse import bad_server
from test_http_target import PAYLOAD, attempt

from engine.clock import ManualClock
from engine.execution import ErrorKind
from engine.guard import Guard
from engine.model import HttpTarget
from engine.registration import register
from engine.store import Store
from engine.store.jobs import create_jobs
from engine.targets import Attempted
from engine.targets.http import HttpRunner

clock = calling.clock
client = calling.client
keyspace = calling.keyspace

NOT_PUBLIC = Attempted(False, error="address: its address is not public", kind=ErrorKind.ADDRESS)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("rebound.example", "127.0.0.1"),
        ("mapped.example", "::ffff:127.0.0.1"),
        ("metadata.google.internal", "169.254.169.254"),
        ("169.254.169.254.sslip.io", "169.254.169.254"),
        ("localtest.me", "127.0.0.1"),
        ("zone.example", "fe80::1%lo"),
    ],
    ids=[
        "row_22_rebinding",
        "row_22_mapped",
        "row_04_google",
        "row_24_sslip",
        "row_24_localtest",
        "row_13_zone",
    ],
)
async def test_a_name_that_leads_to_a_bad_address_fails_without_a_connection(
    client: httpx.AsyncClient,
    store: Store,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    name: str,
    address: str,
) -> None:
    async with listening() as inside, reaching({name: [address]}) as runner:
        url = f"http://{name}:{inside.port}/?{calling.SECRET}"
        job = register(now=NOW, target=HttpTarget(url), job_id="rebound")
        if name != "metadata.google.internal":  # which the API would not take
            await create(client, {"job_id": "rebound", **target(url), "retry": {"jitter": "none"}})
        else:
            await create_jobs(store, [job])
        with caplog.at_level(logging.WARNING, "waterclock.worker"):
            await work(store, clock, runner)
            await attempt(runner, url)
        assert inside.connections == 0
    [execution] = (await client.get("/v1/jobs/rebound/executions")).json()
    [tried] = execution["attempts"]
    assert tried["error"] == "address: its address is not public"
    warned = [record.getMessage() for record in caplog.records]
    assert warned == [f"target host {name} is not called: its address is not public"]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1"] * 3 + ["127.0.0.2"]],
    ids=["row_23_bad_first", "row_23_bad_last", "row_23_mostly_bad"],
)
async def test_of_several_addresses_only_the_good_one_is_called(addresses: list[str]) -> None:
    guard = Guard.of("127.0.0.2")
    async with (
        listening("127.0.0.1") as bad,
        listening("127.0.0.2", bad.port) as good,
        reaching({"both.example": addresses}, guard) as runner,
    ):
        for _ in range(3):
            attempted = await attempt(runner, f"http://both.example:{bad.port}/")
            assert attempted == Attempted(True, 200)
        assert (bad.connections, good.connections) == (0, 3)


async def test_row_23_when_the_good_address_does_not_answer_the_bad_one_is_no_way_out() -> None:
    async with (
        listening("127.0.0.1") as bad,
        reaching({"both.example": ["127.0.0.2", "127.0.0.1"]}, Guard.of("127.0.0.2")) as runner,
    ):
        attempted = await attempt(runner, f"http://both.example:{bad.port}/")
        assert (attempted.succeeded, attempted.is_final, bad.connections) == (False, False, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_a_bad_address_of_a_job_that_was_stored_before_fails_for_good(host: str) -> None:
    async with listening() as inside, reaching({}) as runner:
        attempted = await attempt(runner, f"http://{host}:{inside.port}/")
        assert attempted == Attempted(
            False, error="address: its address is not public", is_final=True, kind="address"
        )
        assert inside.connections == 0


async def test_row_21_a_port_that_is_not_called_fails_for_good_also_behind_a_name() -> None:
    names = Names({"a.example": ["8.8.8.8"]})
    runner = HttpRunner("9.9", clock=ManualClock(NOW), resolver=names)
    attempted = await attempt(runner, "http://a.example:6379/")
    await runner.close()
    assert attempted == Attempted(
        False, error="address: its port is not called", is_final=True, kind="address"
    )


async def test_an_allowed_host_is_called_at_any_address_and_only_it() -> None:
    names = {"own.internal": ["127.0.0.1"], "other.internal": ["127.0.0.1"]}
    async with listening() as inside:
        guard = Guard.of(hosts=f"own.internal:{inside.port}")
        async with reaching(names, guard) as runner:
            url = f"http://own.internal:{inside.port}/"
            assert await attempt(runner, url) == Attempted(True, 200)
            assert await attempt(runner, url.replace("own", "other")) == NOT_PUBLIC
        assert inside.connections == 1


def moved(status: int, place: str) -> bytes:
    return f"HTTP/1.1 {status} -\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("status", "place", "most", "kind"),
    [
        (302, "http://169.254.169.254/", 0, ErrorKind.REDIRECT),
        (302, "http://169.254.169.254/", 5, ErrorKind.REDIRECT),
        (307, "http://127.0.0.1:{port}/", 0, ErrorKind.REDIRECT),
        (307, "http://127.0.0.1:{port}/", 5, ErrorKind.ADDRESS),
        (308, "http://inside.example:{port}/", 5, ErrorKind.ADDRESS),
        (307, "//127.0.0.1:{port}/", 5, ErrorKind.ADDRESS),
        (307, "http://2130706433:{port}/", 5, ErrorKind.URL),
        (307, "http://127.0.0.2:6379/", 5, ErrorKind.ADDRESS),
        (307, "file:///etc/passwd", 5, ErrorKind.REDIRECT),
        (307, "http://a:b@127.0.0.2/", 5, ErrorKind.REDIRECT),
    ],
    ids=lambda value: f"row_25_{value}" if isinstance(value, str) and "/" in value else None,
)
async def test_a_redirect_leads_nowhere_that_a_target_may_not_be(
    status: int, place: str, most: int, kind: ErrorKind
) -> None:
    async with listening() as inside:
        answer = moved(status, place.format(port=inside.port))
        names = {"outside.example": ["127.0.0.2"], "inside.example": ["127.0.0.1"]}
        async with (
            listening("127.0.0.2", answer=answer) as outside,
            reaching(names, Guard.of("127.0.0.2")) as runner,
        ):
            url = f"http://outside.example:{outside.port}/"
            attempted = await attempt(runner, url, follow_redirects=most)
        assert (attempted.succeeded, attempted.kind) == (False, kind)
        assert (outside.connections, inside.connections) == (1, 0)


async def test_row_25_what_one_host_is_allowed_is_not_where_it_redirects_to() -> None:
    names = {"own.internal": ["127.0.0.2"], "other.internal": ["127.0.0.1"]}
    async with listening() as inside:
        answer = moved(307, f"http://other.internal:{inside.port}/")
        async with (
            listening("127.0.0.2", answer=answer) as outside,
            reaching(names, Guard.of(hosts="own.internal")) as runner,
        ):
            url = f"http://own.internal:{outside.port}/"
            assert await attempt(runner, url, follow_redirects=1) == NOT_PUBLIC
        assert (outside.connections, inside.connections) == (1, 0)


async def test_row_26_what_a_success_says_of_another_place_is_not_looked_at() -> None:
    async with listening() as inside:
        to = f"http://127.0.0.1:{inside.port}/"
        page = f"<meta http-equiv=refresh content='0;{to}'>".encode()
        head = f"HTTP/1.1 200 OK\r\nRefresh: 0;url={to}\r\nContent-Length: {len(page)}\r\n\r\n"
        async with (
            listening("127.0.0.2", answer=head.encode() + page) as outside,
            reaching({}, ON_LOOPBACK) as runner,
        ):
            url = f"http://127.0.0.2:{outside.port}/"
            assert await attempt(runner, url, follow_redirects=5) == Attempted(True, 200)
        assert (outside.connections, inside.connections) == (1, 0)


async def test_row_28_a_proxy_of_the_environment_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening() as proxy, listening() as outside:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            for spelled in (name, name.lower()):
                monkeypatch.setenv(spelled, f"http://127.0.0.1:{proxy.port}")
        names = {"outside.example": ["127.0.0.1"]}
        async with reaching(names, ON_LOOPBACK) as runner:
            url = f"http://outside.example:{outside.port}/"
            assert await attempt(runner, url) == Attempted(True, 200)
        assert (proxy.connections, outside.connections) == (0, 1)


# Row 31: TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("expired", "certificate has expired"),
        ("not_yet", "certificate is not yet valid"),
        ("self_signed", "self-signed certificate"),
        ("wrong_name", "Hostname mismatch"),
    ],
    ids=lambda value: f"row_31_{value}" if "_" in value or value == "expired" else None,
)
async def test_a_certificate_that_does_not_hold_is_a_failure(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    trusting = ssl.create_default_context(cadata=certificates.authority)
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)

    async def never(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        raise AssertionError(PAYLOAD)

    async with (
        bad_server(never, certificates.context(name)) as url,
        reaching({"target.example": ["127.0.0.1"]}, ON_LOOPBACK) as runner,
    ):
        attempted = await attempt(runner, url.replace("127.0.0.1", "target.example"))
    assert attempted == Attempted(False, error=f"tls: certificate: {reason}", kind=ErrorKind.TLS)


async def test_a_certificate_that_holds_is_none(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.create_default_context(cadata=certificates.authority)
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 204 -\r\n\r\n")
        await writer.drain()

    async with (
        bad_server(answer, certificates.context("good")) as url,
        reaching({"target.example": ["127.0.0.1"]}, ON_LOOPBACK) as runner,
    ):
        attempted = await attempt(runner, url.replace("127.0.0.1", "target.example"))
    assert attempted == Attempted(True, 204)
