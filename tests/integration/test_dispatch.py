"""Targets find their runner by their type, and targets report on the URL that they are sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from fleet import OK, ScriptedRunner
from seeding import NOW, start

from engine.backoff import Retry
from engine.cli.fleet import queues_of
from engine.clock import ManualClock
from engine.codec import dump_retry, dump_target, load_promise
from engine.config import Config
from engine.execution import Delivery
from engine.model import HttpTarget, ShellTarget, Target, WorkerTarget
from engine.roles import _callback_url, _runner
from engine.store import Store
from engine.store.reports import LONGEST_PROMISE_MS, signing_key
from engine.targets import Attempted, Runner
from engine.targets.dispatch import Dispatch

HTTP = HttpTarget("http://127.0.0.1:1/")
SHELL = ShellTarget("exit 0")


async def delivery_of(store: Store, target: Target) -> Delivery:
    return replace(await start(store, "job-0"), target=dump_target(target))


async def test_a_runner_is_made_once_when_its_first_target_comes(store: Store) -> None:
    made: list[ScriptedRunner] = []

    async def make() -> Runner:
        await asyncio.sleep(0)
        made.append(ScriptedRunner())
        return made[-1]

    dispatch = Dispatch({"http": make, "shell": make})
    delivery = await delivery_of(store, HTTP)
    assert made == []
    assert await asyncio.gather(*(dispatch.run(delivery) for _ in range(3))) == [OK] * 3
    [runner] = made
    assert len(runner.seen) == 3
    await dispatch.close()
    assert runner.is_closed


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (SHELL, "shell: this worker was not started with --allow-shell"),
        (WorkerTarget(), "worker: this worker has no handlers; use another queue"),
    ],
)
async def test_a_target_that_this_worker_does_not_run_has_failed_for_good(
    store: Store, target: Target, error: str
) -> None:
    dispatch = _runner(store, ManualClock(NOW))
    attempted = await dispatch.run(await delivery_of(store, target))
    assert attempted == Attempted(False, error=error, is_final=True)


async def test_a_worker_that_is_allowed_to_runs_commands(store: Store) -> None:
    config = store.config.model_copy(update={"allow_shell": True})
    dispatch = _runner(replace(store, config=config), ManualClock(NOW))
    attempted = await dispatch.run(await delivery_of(store, ShellTarget("echo hi; exit 3")))
    await dispatch.close()
    assert (attempted.succeeded, attempted.exit_status, attempted.output) == (False, 3, "hi\n")


@pytest.mark.parametrize(
    ("settings", "queues"),
    [
        ({}, {"http": 1}),
        ({"allow_shell": True}, {"http": 1, "shell": 1}),
        ({"allow_shell": True, "worker_queues": "http"}, {"http": 1}),
        ({"worker_queues": "mail=3, http"}, {"mail": 3, "http": 1}),
    ],
)
def test_a_worker_that_may_run_commands_reads_their_queue_unless_it_was_told_which(
    settings: dict[str, object], queues: dict[str, int]
) -> None:
    assert queues_of(Config(**settings)) == queues  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("deadline_ms", "expires_after_ms"), [(None, LONGEST_PROMISE_MS), (60_000, 60_000)]
)
async def test_a_target_is_sent_a_signed_url_that_expires(
    store: Store, deadline_ms: int | None, expires_after_ms: int
) -> None:
    retry = dump_retry(Retry(deadline_ms=deadline_ms))
    delivery = replace(await delivery_of(store, HTTP), retry=retry, attempt=2)
    config = store.config.model_copy(update={"public_url": "https://wc.test/base/"})
    key = await signing_key(store)
    url = _callback_url(config, delivery, NOW, key)
    path, _, token = urlsplit(url).path.rpartition("/")
    assert url.startswith("https://wc.test/base/v1/callbacks/")
    assert path == "/base/v1/callbacks"
    promise = load_promise(token, key, NOW)
    assert (promise.execution_id, promise.attempt) == (delivery.execution_id, 2)
    assert (promise.started_at, promise.expires_at) == (NOW, NOW + expires_after_ms)
