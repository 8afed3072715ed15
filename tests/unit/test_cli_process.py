"""How a process takes signals, and waits for its server."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from engine.cli import process
from engine.cli.process import SAME_SIGNAL_MS, Signals, open_store
from engine.config import Config
from engine.errors import Unusable
from engine.store import Store


class Driven:
    """Signals with a clock that is moved by hand and an end that is only noted."""

    def __init__(self) -> None:
        self.now = 100.0
        self.stop = asyncio.Event()
        self.ends: list[int] = []
        self.signals = Signals(self.stop, end=self.ends.append, monotonic=lambda: self.now)


def test_first_signal_asks_to_stop_and_ends_nothing() -> None:
    driven = Driven()
    assert not driven.stop.is_set()
    driven.signals.receive(15)
    assert driven.stop.is_set()
    assert driven.ends == []


def test_second_signal_ends_the_process_with_the_shells_code() -> None:
    driven = Driven()
    driven.signals.receive(15)
    driven.now += SAME_SIGNAL_MS / 1000 + 0.001
    driven.signals.receive(2)
    assert driven.ends == [130]


def test_a_signal_that_was_passed_on_twice_counts_once() -> None:
    driven = Driven()
    driven.signals.receive(2)
    driven.now += SAME_SIGNAL_MS / 1000 - 0.001
    driven.signals.receive(2)
    assert driven.ends == []


OPENED = cast(Store, object())


class Opening:
    """Stands for `Store.open` and the waits between: raises `failures` one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> None:
        self.failures = list(failures)
        self.waits: list[float] = []
        self.stop_after = 1_000
        monkeypatch.setattr(Store, "open", self.open)
        monkeypatch.setattr(process, "sleep_unless", self.wait)

    async def open(self, _: Config) -> Store:
        if self.failures:
            raise self.failures.pop(0)
        return OPENED

    async def wait(self, stop: asyncio.Event, ms: float) -> None:
        self.waits.append(ms)
        if len(self.waits) == self.stop_after:
            stop.set()


async def test_a_server_that_comes_up_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Opening(monkeypatch, *[ConnectionError("refused")] * 40)
    assert await open_store(Config(), asyncio.Event()) is OPENED
    assert len(opening.waits) == 40
    assert 50 <= opening.waits[0] <= 100
    assert all(500 <= wait <= 1_000 for wait in opening.waits[4:])


async def test_waiting_for_a_server_ends_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Opening(monkeypatch, *[ConnectionError("refused")] * 40)
    opening.stop_after = 3
    assert await open_store(Config(), asyncio.Event()) is None
    assert len(opening.waits) == 3


async def test_an_unfit_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Opening(monkeypatch, Unusable("it evicts"))
    with pytest.raises(Unusable, match="it evicts"):
        await open_store(Config(), asyncio.Event())
    assert opening.waits == []
