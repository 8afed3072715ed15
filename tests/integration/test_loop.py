"""The loop: step after step, through what passes by itself, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
import redis.exceptions as driver

from engine import loop
from engine.errors import NotSupported, Unusable
from engine.loop import LOG_EVERY, LONGEST_WAIT_MS, keep_stepping, sleep_unless

Answer = float | BaseException


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sleeps that a loop asks for; none is slept."""
    asked: list[float] = []

    async def note(stop: asyncio.Event, ms: float) -> None:
        asked.append(ms)

    monkeypatch.setattr(loop, "sleep_unless", note)
    return asked


def script(stop: asyncio.Event, answers: list[Answer]) -> Callable[[], asyncio.Future[float]]:
    """Return a step that answers in turn, and sets `stop` with its last answer."""

    async def step() -> float:
        answer = answers.pop(0)
        if not answers:
            stop.set()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return lambda: asyncio.ensure_future(step())


async def test_it_sleeps_as_long_as_a_step_returns(pauses: list[float]) -> None:
    stop = asyncio.Event()
    await keep_stepping("test", script(stop, [5, 0, 70]), stop)
    assert pauses == [5, 70]


async def test_a_step_that_never_sleeps_lets_others_run() -> None:
    stop = asyncio.Event()

    async def step() -> float:
        return 0

    looping = asyncio.create_task(keep_stepping("test", step, stop))
    await asyncio.sleep(0)
    stop.set()
    await looping


@pytest.mark.parametrize(
    "error",
    [
        driver.ConnectionError("away"),
        driver.OutOfMemoryError("full"),
        NotSupported("newer"),
        KeyError("a bug"),
    ],
)
async def test_it_survives_errors_and_waits_longer_after_each(
    pauses: list[float], error: Exception
) -> None:
    stop = asyncio.Event()
    await keep_stepping("test", script(stop, [*[error] * 12, 7]), stop)
    *waits, last = pauses
    assert last == 7
    caps = [min(LONGEST_WAIT_MS, 100 * 2**n) for n in range(12)]
    assert all(cap / 2 <= wait <= cap for wait, cap in zip(waits, caps, strict=True))


async def test_the_wait_begins_anew_after_a_step_that_worked(pauses: list[float]) -> None:
    away = driver.ConnectionError("away")
    stop = asyncio.Event()
    await keep_stepping("test", script(stop, [*[away] * 6, 1, away, 1]), stop)
    assert pauses[5] >= 1_000
    assert pauses[7] <= 100


async def test_it_says_so_once_and_then_now_and_again(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stop = asyncio.Event()
    answers: list[Answer] = [*[driver.ConnectionError("away")] * (LOG_EVERY + 1), 1]
    await keep_stepping("test", script(stop, answers), stop)
    said = [(record.levelname, bool(record.exc_info)) for record in caplog.records]
    assert said == [("WARNING", False), ("WARNING", False), ("INFO", False)]
    assert "working again after 9 failed tries" in caplog.text


async def test_an_error_that_nobody_expects_is_logged_with_its_traceback(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    await keep_stepping("test", script(stop, [KeyError("a bug"), 1]), stop)
    assert "Traceback" in caplog.text


async def test_an_unfit_server_ends_it(pauses: list[float]) -> None:
    stop = asyncio.Event()
    with pytest.raises(Unusable, match="evicts"):
        await keep_stepping("test", script(stop, [1, Unusable("evicts"), 1]), stop)


async def test_cancelling_it_ends_it() -> None:
    stop = asyncio.Event()
    looping = asyncio.create_task(keep_stepping("test", script(stop, [60_000, 1]), stop))
    await asyncio.sleep(0)
    looping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looping


async def test_a_stop_ends_a_sleep_at_once() -> None:
    stop = asyncio.Event()
    sleeping = asyncio.create_task(sleep_unless(stop, 60_000))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(sleeping, 1)


@pytest.mark.parametrize("ticks", [0, 1, 2])
async def test_a_cancellation_that_comes_with_the_stop_is_not_lost(ticks: int) -> None:
    stop = asyncio.Event()
    sleeping = asyncio.create_task(sleep_unless(stop, 60_000))
    await asyncio.sleep(0)
    stop.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    is_asked = sleeping.cancel()
    await asyncio.wait([sleeping])
    assert sleeping.cancelled() is is_asked


async def test_a_cancellation_that_a_step_has_swallowed_ends_the_loop_after_it() -> None:
    stop, swallowed = asyncio.Event(), 0

    async def step() -> float:
        nonlocal swallowed
        if swallowed:
            stop.set()
            return 0
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed += 1
        return 0

    looping = asyncio.create_task(keep_stepping("test", step, stop))
    await asyncio.sleep(0)
    looping.cancel()
    await asyncio.wait([looping])
    assert swallowed == 1
    assert looping.cancelled()
