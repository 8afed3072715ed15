"""Clocks: the server's time is carried forward, and never stepped by the local wall clock."""

from __future__ import annotations

import time

import pytest

from engine.clock import ManualClock, ServerClock


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The local monotonic clock in seconds, in a list of one, to be set by the test."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_servers_time_is_carried_forward(monotonic: list[float]) -> None:
    clock = ServerClock()
    clock.sample(5_000)
    assert clock.now_ms() == 5_000
    monotonic[0] += 1.5
    assert clock.now_ms() == 6_500


def test_a_later_sample_counts(monotonic: list[float]) -> None:
    clock = ServerClock()
    clock.sample(5_000)
    monotonic[0] += 1
    clock.sample(5_900)
    assert clock.now_ms() == 5_900


def test_a_step_of_the_local_wall_clock_does_not_matter(
    monotonic: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ServerClock()
    clock.sample(5_000)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert clock.now_ms() == 5_000


def test_before_the_first_sample_it_follows_the_local_wall_clock(
    monotonic: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    clock = ServerClock()
    monotonic[0] += 2
    assert clock.now_ms() == 1_002_000


def test_a_sample_leaves_durations_alone(monotonic: list[float]) -> None:
    clock = ServerClock()
    before = clock.monotonic_ms()
    clock.sample(0)
    assert clock.monotonic_ms() == before == 100_000


def test_a_manual_clock_moves_when_told_to() -> None:
    clock = ManualClock(7_000)
    clock.advance(250)
    assert (clock.now_ms(), clock.monotonic_ms()) == (7_250, 250)


def test_a_manual_clock_ignores_the_servers_time() -> None:
    clock = ManualClock(7_000)
    clock.sample(99)
    assert clock.now_ms() == 7_000
