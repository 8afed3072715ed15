"""What a call sends, against a real server: signed, traced and filled in, or else not sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fleet import ON_LOOPBACK
from pydantic import SecretStr
from seeding import NOW, registration

from engine import codec
from engine.clock import ManualClock
from engine.errors import BadSignature
from engine.execution import Delivery, Outcome, Record, SkipReason, SkipRecord
from engine.model import HttpTarget
from engine.store import Store
from engine.store.jobs import create_jobs, get_job
from engine.store.secrets import Owner, create_secret
from engine.targets import Attempted
from engine.targets.http import HttpRunner
from engine.webhooks import secret_text, verify_webhook

ID = f"a.b@{NOW - 7}"
BODY = b'{"n":1}'
DAY = 86_400_000


@dataclass
class Listener:
    """A target that keeps what it is sent."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append((str(request.rel_url), dict(request.headers), body))
        if request.path == "/moved":
            return web.Response(status=307, headers={"Location": "/here"})
        return web.Response()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", listener.answer)
    async with TestServer(app) as server:
        listener.url = str(server.make_url("/"))
        yield listener


@asynccontextmanager
async def running(store: Store | None, now: int = NOW) -> AsyncIterator[HttpRunner]:
    runner = HttpRunner("9.9", guard=ON_LOOPBACK, clock=ManualClock(now), store=store)
    try:
        yield runner
    finally:
        await runner.close()


def delivery(target: HttpTarget, attempt: int = 1, **more: object) -> Delivery:
    made = Delivery(
        shard=0,
        queue="http",
        entry_id="1-0",
        consumer="w1",
        deliveries=1,
        execution_id=ID,
        attempt=attempt,
        due_at=NOW,
        target=codec.dump_target(target),
        payload=BODY,
        retry=b"",
    )
    return replace(made, **more)  # type: ignore[arg-type]


async def attempt(
    store: Store | None, target: HttpTarget, *, now: int = NOW, number: int = 1, **more: object
) -> Attempted:
    async with running(store, now) as runner:
        return await runner.run(delivery(target, number, **more))


async def group_secret(store: Store, overlap_ms: int = DAY) -> str:
    made = await create_secret(store, Owner.of_group("acme"), NOW, overlap_ms=overlap_ms)
    return secret_text(made[1])


def signed(url: str, **more: object) -> HttpTarget:
    made = HttpTarget(url, signing="group", signed_by="group:acme")
    return replace(made, **more)  # type: ignore[arg-type]


# Signed


async def test_a_signed_call_is_verified_by_its_id_and_its_time(
    store: Store, listener: Listener
) -> None:
    secret = await group_secret(store)
    assert await attempt(store, signed(listener.url), now=NOW + 1_999) == Attempted(True, 200)
    [(_, headers, body)] = listener.requests
    assert headers["webhook-id"] == headers["Idempotency-Key"] == ID
    assert headers["webhook-timestamp"] == str(NOW // 1000 + 1)
    assert body == BODY
    assert verify_webhook(secret, headers, body, now=NOW) == ID


async def test_while_two_secrets_are_valid_a_call_has_two_signatures(
    store: Store, listener: Listener
) -> None:
    old, new = await group_secret(store), await group_secret(store, overlap_ms=60_000)
    for now, valid in ((NOW, {old, new}), (NOW + 60_000, {new})):
        await attempt(store, signed(listener.url), now=now)
        _, headers, body = listener.requests[-1]
        assert headers["webhook-signature"].count("v1,") == len(valid)
        for secret in (old, new):
            if secret in valid:
                verify_webhook(secret, headers, body, now=NOW)
            else:
                with pytest.raises(BadSignature):
                    verify_webhook(secret, headers, body, now=NOW)


async def test_a_job_signs_with_its_own_secret(store: Store, listener: Listener) -> None:
    target = HttpTarget(listener.url, signing="job")
    await create_jobs(store, [registration("a.b", target=target)])
    job = (await get_job(store, "a.b")).job
    _, secret = await create_secret(store, Owner.of_job(job), NOW, overlap_ms=0)
    assert isinstance(job.target, HttpTarget)
    assert await attempt(store, job.target) == Attempted(True, 200)
    [(_, headers, body)] = listener.requests
    assert verify_webhook(secret_text(secret), headers, body, now=NOW) == ID


async def test_what_cannot_be_signed_is_not_sent(store: Store, listener: Listener) -> None:
    """And the failure is one that is tried again, and says what to do, and no secret."""
    without = await attempt(store, signed(listener.url))
    sealed = store.config.model_copy(update={"secret_key": SecretStr("k" * 32)})
    await group_secret(replace(store, config=sealed))
    for attempted, said in (
        (without, "this group has no secret; make one with `waterclock secrets create`"),
        (await attempt(store, signed(listener.url)), "WATERCLOCK_SECRET_KEY"),
        (await attempt(None, signed(listener.url)), "can read no secrets"),
        (await attempt(store, HttpTarget(listener.url, signing="job")), "no secret"),
    ):
        assert (attempted.succeeded, attempted.kind, attempted.is_final) == (
            False,
            "signing",
            False,
        )
        assert said in str(attempted.error)
        assert str(attempted.error).startswith("signing: ")
    assert listener.requests == []


async def test_while_the_server_is_away_a_signed_call_fails_and_is_not_sent(
    store: Store, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group_secret(store)

    async def gone(*_: object) -> bytes:
        raise ConnectionError("cut")

    monkeypatch.setattr(store.client, "hget", gone)
    monkeypatch.setattr(store.client, "lrange", gone)
    attempted = await attempt(store, signed(listener.url))
    assert attempted == Attempted(
        False, error="signing: the secrets could not be read", kind="signing"
    )
    asking = HttpTarget(listener.url, {"X": "{{previous_outcome}}"}, template=True)
    attempted = await attempt(store, asking)
    assert (attempted.kind, attempted.is_final) == ("internal", False)
    assert listener.requests == []


async def test_an_unsigned_call_has_no_such_headers_and_asks_the_server_nothing(
    store: Store, listener: Listener
) -> None:
    before = (await store.client.info("stats"))["total_commands_processed"]
    target = HttpTarget(listener.url, {"X": "{{attempt}}"})
    assert await attempt(store, target) == Attempted(True, 200)
    assert await attempt(store, replace(target, template=True)) == Attempted(True, 200)
    assert (await store.client.info("stats"))["total_commands_processed"] == before + 1
    (_, plain, _), (_, filled, _) = listener.requests
    assert not [name for name in plain if name.lower().startswith("webhook-")]
    assert (plain["X"], filled["X"]) == ("{{attempt}}", "1")


async def test_many_signed_calls_look_for_their_secret_once(
    store: Store, listener: Listener
) -> None:
    await group_secret(store)
    async with running(store) as runner:
        await runner.run(delivery(signed(listener.url)))
        before = (await store.client.info("stats"))["total_commands_processed"]
        for _ in range(5):
            await runner.run(delivery(signed(listener.url)))
        after = (await store.client.info("stats"))["total_commands_processed"]
    assert after == before + 1
    assert len({headers["webhook-signature"] for _, headers, _ in listener.requests}) == 1


async def test_a_redirect_within_the_jobs_choice_keeps_the_signature(
    store: Store, listener: Listener
) -> None:
    secret = await group_secret(store)
    moved = signed(f"{listener.url}moved", follow_redirects=1)
    assert await attempt(store, moved) == Attempted(True, 200)
    _, (path, headers, body) = listener.requests
    assert path == "/here"
    assert verify_webhook(secret, headers, body, now=NOW) == ID


async def test_what_upstream_jobs_gave_is_signed_as_it_is_sent(
    store: Store, listener: Listener
) -> None:
    secret = await group_secret(store)
    sly = b'{"up":"{{execution_id}}"}'
    target = signed(listener.url, template=True)
    await attempt(store, target, payload=b"null", upstream=sly)
    [(_, headers, body)] = listener.requests
    assert body == b'{"upstream":' + sly + b"}", "it is no template"
    verify_webhook(secret, headers, body, now=NOW)


# Traced


async def test_an_execution_is_a_trace_and_each_attempt_a_span_of_it(listener: Listener) -> None:
    for number, execution_id in ((1, ID), (1, ID), (2, ID), (1, f"a.c@{NOW}")):
        target = HttpTarget(listener.url)
        await attempt(None, target, number=number, execution_id=execution_id)
    parents = [headers["traceparent"].split("-") for _, headers, _ in listener.requests]
    assert all(
        (version, len(trace), len(span), flags) == ("00", 32, 16, "01")
        for version, trace, span, flags in parents
    )
    first, again, second, other = [(trace, span) for _, trace, span, _ in parents]
    assert first == again
    assert first[0] == second[0]
    assert len({first[1], second[1], other[1]}) == 3
    assert other[0] != first[0]


# Filled in


async def test_a_template_is_filled_for_each_attempt_under_one_id(
    store: Store, listener: Listener
) -> None:
    payload = b'{"id":"{{execution_id}}","try":"<aws.scheduler.attempt-number>"}'
    headers = {"X-Try": "{{attempt}}", "Content-Type": "application/x.{{attempt}}+json"}
    target = signed(f"{listener.url}jobs/{{{{job_id}}}}?at={{{{scheduled_for}}}}", template=True)
    target = replace(target, headers=headers)
    secret = await group_secret(store)
    for number in (1, 2):
        await attempt(store, target, number=number, payload=payload)
    for number, (path, sent, body) in enumerate(listener.requests, 1):
        assert path == "/jobs/a.b?at=2027-01-15T07:59:59.993Z"
        assert json.loads(body) == {"id": ID, "try": str(number)}
        assert sent["X-Try"] == str(number)
        assert sent["Content-Type"] == f"application/x.{number}+json"
        assert sent["Idempotency-Key"] == ID
        assert verify_webhook(secret, sent, body, now=NOW) == ID
    assert len(listener.requests) == 2


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "none"),
        ([(3, Outcome.SUCCEEDED)], "succeeded"),
        ([(5, Outcome.DEAD), (3, Outcome.SUCCEEDED)], "dead"),
        # Recorded later, and for an earlier time.
        ([(3, Outcome.SUCCEEDED), (5, Outcome.DEAD)], "dead"),
        ([(5, Outcome.CANCELLED), (5, Outcome.FAILED)], "cancelled"),
        # Redriven: the last word counts.
        ([(5, Outcome.SUCCEEDED), (5, Outcome.DEAD)], "succeeded"),
        # It has not ended, or is this very one before a redrive, or a later one.
        ([(5, Outcome.FAILED), (3, Outcome.SUCCEEDED)], "succeeded"),
        ([(7, Outcome.DEAD), (9, Outcome.DEAD)], "none"),
        ([(6, None), (3, Outcome.SUCCEEDED)], "succeeded"),
    ],
)
async def test_the_previous_outcome_is_that_of_the_time_before_by_the_history(
    store: Store, listener: Listener, records: list[tuple[int, Outcome | None]], said: str
) -> None:
    # Times of records count back from the nominal time, 7 ms before NOW: 7 is this execution's own.
    target = HttpTarget(listener.url, {"X": "{{previous_outcome}}"}, template=True)
    await create_jobs(store, [registration("a.b", target=target)])
    runs = store.layout.shard_of("a.b").runs("a.b")
    for time, outcome in records:
        at = NOW - 14 + time
        record = (
            SkipRecord(at, at, 1, SkipReason.PAUSED)
            if outcome is None
            else Record(at, outcome, 1, 1, "w1", at, 5)
        )
        await store.client.rpush(runs, codec.dump_record(record))
    assert await attempt(store, target) == Attempted(True, 200)
    [(_, headers, _)] = listener.requests
    assert headers["X"] == said


async def test_without_a_store_what_asks_for_history_is_not_sent(listener: Listener) -> None:
    target = HttpTarget(listener.url, {"X": "{{previous_outcome}}"}, template=True)
    attempted = await attempt(None, target)
    assert (attempted.kind, attempted.is_final) == ("internal", False)
    assert listener.requests == []
