"""The supervisor: services start in order, stop in reverse, and none outlives the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from engine import supervisor
from engine.errors import Unusable
from engine.supervisor import run_services


class Fake:
    """A service that notes what happens to it. `fails` at once, `ends` at once, `hangs` when told
    to stop, or `breaks` while it tidies up."""

    def __init__(
        self,
        name: str,
        log: list[str],
        *,
        fails: Exception | None = None,
        ends: bool = False,
        hangs: bool = False,
        breaks: Exception | None = None,
    ) -> None:
        self.name = name
        self._log = log
        self._fails, self._ends, self._hangs, self._breaks = fails, ends, hangs, breaks

    async def run(self, stop: asyncio.Event) -> None:
        self._log.append(f"{self.name} starts")
        try:
            if self._fails:
                raise self._fails
            if not self._ends:
                await stop.wait()
            if self._hangs:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._log.append(f"{self.name} is cut off")
            raise
        finally:
            if self._breaks:
                raise self._breaks
        self._log.append(f"{self.name} stops")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "GRACE_MS", 20)


def set_soon(stop: asyncio.Event) -> None:
    asyncio.get_running_loop().call_soon(stop.set)


async def test_services_stop_in_reverse_order_one_after_the_other(log: list[str]) -> None:
    stop = asyncio.Event()
    set_soon(stop)
    await run_services([Fake("a", log), Fake("b", log), Fake("c", log)], stop, 1_000)
    assert log == ["a starts", "b starts", "c starts", "c stops", "b stops", "a stops"]


async def test_a_service_that_ends_by_itself_stops_the_others(log: list[str]) -> None:
    services = [Fake("a", log), Fake("b", log, ends=True), Fake("c", log)]
    await run_services(services, asyncio.Event(), 1_000)
    assert log[-2:] == ["c stops", "a stops"]


async def test_a_service_that_fails_at_once_stops_the_others_and_its_reason_is_raised(
    log: list[str],
) -> None:
    services = [Fake("a", log), Fake("b", log, fails=Unusable("evicts")), Fake("c", log)]
    with pytest.raises(Unusable, match="evicts"):
        await run_services(services, asyncio.Event(), 1_000)
    assert log[3:] == ["c stops", "a stops"]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_the_failure_that_stopped_the_others_is_raised_and_the_rest_is_logged(
    log: list[str], caplog: pytest.LogCaptureFixture, place: int
) -> None:
    services = [Fake(name, log, breaks=OSError(f"{name} is full")) for name in "abc"]
    services[place] = Fake("cause", log, fails=Unusable("evicts"))
    with pytest.raises(Unusable, match="evicts"):
        await run_services(services, asyncio.Event(), 1_000)
    assert caplog.text.count("OSError") == 2


async def test_an_error_while_tidying_up_is_raised(log: list[str]) -> None:
    stop = asyncio.Event()
    set_soon(stop)
    services = [Fake("a", log), Fake("b", log, breaks=OSError("full"))]
    with pytest.raises(OSError, match="full"):
        await run_services(services, stop, 1_000)
    assert log[-1] == "a stops"


@pytest.mark.parametrize("breaks", [None, OSError("full")])
async def test_a_service_that_does_not_stop_is_cut_off_and_the_others_stop_after_it(
    log: list[str], breaks: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    set_soon(stop)
    running = run_services(
        [Fake("a", log), Fake("b", log, hangs=True, breaks=breaks)], stop, deadline_ms=10
    )
    if breaks:
        with pytest.raises(OSError, match="full"):
            await running
    else:
        await running
    assert log[-2:] == ["b is cut off", "a stops"]
    assert "b does not stop in time" in caplog.text


@pytest.mark.parametrize(
    "make",
    [
        lambda log: [Fake("a", log, fails=Unusable("evicts")), Fake("b", log)],
        lambda log: [Fake("a", log, ends=True), Fake("b", log)],
        lambda log: [Fake("a", log, hangs=True), Fake("b", log, ends=True)],
    ],
)
async def test_no_task_is_left_behind(
    log: list[str], make: Callable[[list[str]], list[Fake]]
) -> None:
    before = asyncio.all_tasks()
    try:
        await run_services(make(log), asyncio.Event(), 10)
    except Unusable:
        pass
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
