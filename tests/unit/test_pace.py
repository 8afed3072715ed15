"""The pace of the fire loop: how much a script is given, and how many wait at the server."""

from __future__ import annotations

import asyncio

import pytest

from engine.pace import LEAST, REMEMBERED, SCRIPT_MS, WAITING, Pace


class Timer:
    """A timer that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def run(pace: Pace, timer: Timer, members: int, took_ms: float) -> None:
    async with pace.turn([members]):
        timer.now_s += took_ms / 1_000


async def test_a_quick_server_is_given_more_up_to_the_most() -> None:
    timer = Timer()
    pace = Pace(1_000, timer)
    await run(pace, timer, 250, 2.0)
    assert pace.size == 375
    await run(pace, timer, 375, 0.5)
    assert pace.size == 1_000


async def test_a_server_that_has_become_slow_is_given_less_down_to_the_least() -> None:
    timer = Timer()
    pace = Pace(1_000, timer)
    await run(pace, timer, 250, 1.0)
    for _ in range(REMEMBERED):
        await run(pace, timer, 250, 10.0)
    assert pace.size == pytest.approx(250 * SCRIPT_MS / 10, abs=1)
    for _ in range(REMEMBERED):
        await run(pace, timer, 250, 1_000.0)
    assert pace.size == LEAST


async def test_one_script_that_waited_for_the_machine_changes_nothing() -> None:
    timer = Timer()
    pace = Pace(1_000, timer)
    await run(pace, timer, 250, 2.0)
    await run(pace, timer, 250, 200.0)
    assert pace.size == 375


async def test_a_script_of_few_members_says_nothing_of_what_one_costs() -> None:
    timer = Timer()
    pace = Pace(1_000, timer)
    await run(pace, timer, LEAST - 1, 20.0)
    assert pace.size == 250


async def test_several_small_scripts_say_nothing_of_it_either() -> None:
    timer = Timer()
    pace = Pace(1_000, timer)
    async with pace.turn([LEAST] * 4):
        timer.now_s += 1.0
    assert pace.size == 250


async def test_a_smaller_limit_holds_from_the_start() -> None:
    timer = Timer()
    pace = Pace(3, timer)
    assert pace.size == 3
    await run(pace, timer, 3, 60.0)
    assert pace.size == 3


async def test_a_script_is_not_blamed_for_the_one_before_it() -> None:
    timer = Timer()
    pace = Pace(1_000, timer)
    first, second = asyncio.Event(), asyncio.Event()

    async def hold(until: asyncio.Event) -> None:
        async with pace.turn([400]):
            await until.wait()

    running = [asyncio.create_task(hold(first)), asyncio.create_task(hold(second))]
    await asyncio.sleep(0)
    timer.now_s += 0.004
    first.set()
    await running[0]
    timer.now_s += 0.002
    second.set()
    await running[1]
    assert pace.size == pytest.approx(400 * SCRIPT_MS / 2, abs=1)


async def test_no_more_scripts_are_at_the_server_than_keep_it_busy() -> None:
    timer, most, inside = Timer(), 0, 0
    pace = Pace(1_000, timer)

    async def fire() -> None:
        nonlocal most, inside
        async with pace.turn([10]):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(fire() for _ in range(9)))
    assert most == WAITING
