"""Webhooks and their secrets: rows 48 to 54 of the list of abuses, each by its number."""

from __future__ import annotations

import base64
import hmac
import logging
import re
import time

import calling
import httpx
import pytest
from calling import CRON, NOW, Read, create, pointers, refused
from fleet import ON_LOOPBACK
from keyed import asking, bearer, make_key
from reaching import listening, reaching, target, work

from engine import verify_webhook
from engine.clock import ManualClock
from engine.errors import BadSignature
from engine.names import JOB_ID
from engine.store import Store
from engine.webhooks import new_secret, parse_secret, secret_text, sign

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

SECRET = secret_text(bytes(range(32)))
ID, BODY, NOW_S = f"report.v2@{NOW}", b'{"n":1}', NOW // 1000


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(secret_text(bytes(23)), id="row_48_short"),
        pytest.param("whsec_", id="row_48_empty"),
        pytest.param("whsec_not base64, and long enough to be one!", id="row_48_not_base64"),
        pytest.param(base64.b64encode(bytes(32)).decode(), id="row_48_no_prefix"),
        pytest.param(SECRET, id="row_48_another_tenants"),
    ],
)
async def test_a_secret_that_is_none_or_anothers_is_refused_and_not_repeated(
    store: Store, clock: ManualClock, keyspace: Read, secret: str
) -> None:
    a = bearer(await make_key(store, "write", groups=("a",)))
    b = bearer(await make_key(store, "write", groups=("b",)))
    async with asking(store, clock) as client:
        theirs = {"secret": SECRET}
        answer = await client.post("/v1/groups/b/secrets", json=theirs, headers=b)
        assert answer.status_code == 201
        before = await keyspace()
        answer = await client.post("/v1/groups/a/secrets", json={"secret": secret}, headers=a)
        assert pointers(refused(answer, 400, "bad_input")) == ["/secret"]
        assert secret.removeprefix("whsec_") not in answer.text or secret == "whsec_"
        assert await keyspace() == before
        listed = await client.get("/v1/groups/a/secrets", headers=a)
        assert listed.json()["secrets"] == []


async def test_row_48_a_secret_that_is_left_out_is_made(client: httpx.AsyncClient) -> None:
    made = [(await client.post("/v1/groups/a/secrets")).json()["secret"] for _ in range(2)]
    assert made[0] != made[1]
    assert [len(parse_secret(secret)) for secret in made] == [32, 32]


def headers(signature: str, *, message_id: str = ID, at: int = NOW_S) -> dict[str, str]:
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature,
    }


def signed(*, message_id: str = ID, at: int = NOW_S) -> dict[str, str]:
    signature = sign([parse_secret(SECRET)], message_id, at, BODY)
    return headers(signature, message_id=message_id, at=at)


def refusal(given: dict[str, str]) -> str | None:
    with pytest.raises(BadSignature) as refused:
        verify_webhook(SECRET, given, BODY, now=NOW)
    return refused.value.field


def test_row_49_a_dot_in_an_id_makes_no_two_messages_sign_the_same() -> None:
    """An id here is no hash: what stands behind its one `@` has no dot, and so nothing that begins
    as an id and goes on with a dot is one."""
    assert JOB_ID.fullmatch("report.v2")
    assert verify_webhook(SECRET, signed(), BODY, now=NOW) == ID
    longer = signed(message_id=f"{ID}.{NOW_S}")
    assert refusal(longer) == "webhook-id"
    for pretended in ("report", "report.v2", f"report.v2@{NOW}.1"):
        assert refusal({**signed(), "webhook-id": pretended}) == "webhook-id"


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(NOW_S - 301, id="row_50_replayed"),
        pytest.param(NOW_S + 600, id="row_51_future"),
    ],
)
def test_a_webhook_of_another_time_is_refused_however_well_it_is_signed(at: int) -> None:
    assert refusal(signed(at=at)) == "webhook-timestamp"


RIGHT = signed()["webhook-signature"]
WRONG = "v1," + base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param("v1,", id="row_52_empty"),
        pytest.param(RIGHT.replace("v1,", "v2,"), id="row_52_other_version"),
        pytest.param(" ".join([WRONG] * 1_000), id="row_52_thousand"),
        pytest.param(" ".join([WRONG] * 1_000 + [RIGHT]), id="row_52_thousand_and_the_right_one"),
    ],
)
def test_a_signature_that_is_none_or_a_flood_is_refused(signature: str) -> None:
    assert refusal(headers(signature)) == "webhook-signature"


def test_row_52_the_work_is_bounded_and_the_comparison_takes_one_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[bytes] = []

    def noting(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return hmac_compare(one, other)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr("engine.webhooks.hmac.compare_digest", noting)
    verify_webhook(SECRET, headers(f"{RIGHT} {WRONG}"), BODY, now=NOW)
    assert len(compared) == 2, "the right one ends the search"
    compared.clear()
    refusal(headers(" ".join([WRONG] * 1_000)))
    assert compared == []
    began = time.perf_counter()
    refusal(headers("v1," * 1_000_000))
    assert time.perf_counter() - began < 1


TOKEN = "t0p-s3cret"


async def test_row_53_a_token_in_a_url_is_sent_and_neither_logged_nor_shown_in_a_letter(
    client: httpx.AsyncClient, store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = b"HTTP/1.1 400 -\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with listening(answer=refusing) as outside:
        url = f"http://a.example:{outside.port}/hook?token={TOKEN}&n=1&{TOKEN}"
        with caplog.at_level(logging.DEBUG):
            created = await create(client, {"job_id": "mail", **target(url)})
            assert created["target"]["url"] == url
            async with reaching({"a.example": ["127.0.0.1"]}, ON_LOOPBACK) as runner:
                await work(store, clock, runner)
        assert outside.connections == 1
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith("http")]
    assert not [line for line in ours if TOKEN in line]
    [line] = (await client.get("/v1/dead")).json()
    for path in (f"/v1/dead/{line['execution_id']}", "/v1/dead", "/v1/jobs/mail/executions"):
        answer = await client.get(path)
        assert TOKEN not in answer.text
    letter = (await client.get(f"/v1/dead/{line['execution_id']}")).json()
    assert re.sub(":[0-9]+", "", letter["target"]["url"]) == (
        "http://a.example/hook?token=***&n=***&***"
    )


async def test_row_54_who_reads_sees_no_secret(store: Store, clock: ManualClock) -> None:
    secret = secret_text(new_secret())
    admin, reader = bearer(await make_key(store)), bearer(await make_key(store, "read"))
    job = {**CRON, "target": {**CRON["target"], "signing": "job"}}
    async with asking(store, clock) as client:
        await client.post("/v1/jobs", json=job, headers=admin)
        path = "/v1/jobs/report/secrets"
        made = await client.post(path, json={"secret": secret}, headers=admin)
        assert made.json()["secret"] == secret
        for shown in (path, "/v1/jobs/report", "/v1/jobs", "/v1/jobs/report/executions"):
            answer = await client.get(shown, headers=reader)
            assert answer.status_code == 200, shown
            assert secret.removeprefix("whsec_") not in answer.text
        refused(await client.post(path, headers=reader), 403, "forbidden")
