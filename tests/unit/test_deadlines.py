"""One timer for many waits, on a loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from engine.targets.deadlines import Deadlines, Late


@dataclass
class Timer:
    at: float
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class Loop:
    """Stands for the event loop, and keeps the timers that it was asked for."""

    now: float = 100.0
    timers: list[Timer] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at, call))
        return self.timers[-1]

    def move_to(self, now: float) -> None:
        """Let time pass, and fire what is set to it."""
        self.now = now
        for timer in [one for one in self.timers if one.at <= now and not one.is_cancelled]:
            self.timers.remove(timer)
            timer.call()


@dataclass(eq=False)
class Wait:
    told: list[BaseException] = field(default_factory=list)

    def set_exception(self, exc: BaseException) -> None:
        self.told.append(exc)

    @property
    def is_late(self) -> bool:
        return [type(one) for one in self.told] == [Late]


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def deadlines(loop: Loop) -> Deadlines:
    return Deadlines(cast(asyncio.AbstractEventLoop, loop))


def test_each_wait_ends_at_its_own_time_and_is_told_once(loop: Loop, deadlines: Deadlines) -> None:
    first, second = Wait(), Wait()
    deadlines.set(second, 120)
    deadlines.set(first, 110)
    loop.move_to(109.9)
    assert not first.told
    loop.move_to(110)
    assert first.is_late
    assert not second.told
    loop.move_to(130)
    assert first.is_late
    assert second.is_late


def test_a_wait_that_is_over_is_not_ended(loop: Loop, deadlines: Deadlines) -> None:
    over, waiting = Wait(), Wait()
    deadlines.set(over, 110)
    deadlines.set(waiting, 120)
    deadlines.drop(over)
    loop.move_to(115)
    loop.move_to(125)
    assert not over.told
    assert waiting.is_late


def test_a_wait_that_was_ended_can_be_dropped_and_set_again(
    loop: Loop, deadlines: Deadlines
) -> None:
    wait = Wait()
    deadlines.set(wait, 110)
    loop.move_to(110)
    deadlines.drop(wait)
    deadlines.set(wait, 120)
    loop.move_to(119)
    assert wait.is_late
    loop.move_to(120)
    assert len(wait.told) == 2


def test_a_thousand_waits_set_one_timer(loop: Loop, deadlines: Deadlines) -> None:
    for n in range(1_000):
        wait = Wait()
        deadlines.set(wait, 200 + n)
        if n % 2:
            deadlines.drop(wait)
    assert len(loop.timers) == 1


def test_with_nothing_left_no_timer_is_set(loop: Loop, deadlines: Deadlines) -> None:
    wait = Wait()
    deadlines.set(wait, 110)
    deadlines.drop(wait)
    loop.move_to(110)
    assert loop.timers == []
    deadlines.set(wait, 120)
    loop.move_to(120)
    assert wait.is_late


def test_closed_it_ends_nothing_any_more(loop: Loop, deadlines: Deadlines) -> None:
    wait = Wait()
    deadlines.set(wait, 110)
    deadlines.close()
    loop.move_to(200)
    assert not wait.told
