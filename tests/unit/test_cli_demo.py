"""The demo: its jobs, the application they call, and the lines that it prints."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from api.echo import Echo, app
from engine.cli.up import print_attempt
from engine.demo import ONCE_AFTER_MS, demo_jobs
from engine.execution import Outcome, Record
from engine.model import HttpTarget

NOW = 1_796_025_600_123


def test_the_demo_has_a_job_of_each_kind_of_schedule() -> None:
    found = {r.job.id: (r.plan.kind, r.job.next_run_at) for r in demo_jobs("http://x/", NOW)}
    assert found == {
        "demo-every-5s": ("every", NOW + 5_000),
        "demo-every-minute": ("cron", 1_796_025_660_000),
        "demo-once": ("once", NOW + ONCE_AFTER_MS),
        "demo-flaky": ("every", NOW + 20_000),
    }


async def test_the_flaky_target_answers_well_within_the_flaky_jobs_attempts() -> None:
    [flaky] = [r.job for r in demo_jobs("http://echo/", NOW) if r.job.id == "demo-flaky"]
    assert isinstance(flaky.target, HttpTarget)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport) as client:
        answers = [
            await client.post(flaky.target.url, headers={"Waterclock-Attempt": str(attempt)})
            for attempt in range(1, flaky.retry.max_attempts + 1)
        ]
    assert [answer.status_code for answer in answers] == [503, 503, 200]


async def test_the_echo_says_what_it_was_sent_and_stops_when_told() -> None:
    echo, stop = Echo(), asyncio.Event()
    running = asyncio.create_task(echo.run(stop))
    async with httpx.AsyncClient(trust_env=False) as client:
        headers = {"Idempotency-Key": "a@1", "Waterclock-Attempt": "2"}
        answer = await client.post(echo.url, content=b'{"n":1}', headers=headers)
    assert answer.json() == {"execution_id": "a@1", "attempt": 2, "payload": {"n": 1}}
    stop.set()
    await running
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.post(echo.url)


def test_an_attempt_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    record = Record(NOW, Outcome.SUCCEEDED, 1, 1, "w", NOW + 4, 20, 200)
    print_attempt(NOW + 24, "demo-once", record)
    [line] = capsys.readouterr().out.splitlines()
    words = " ".join(line.split())
    assert words == "08:00:00 demo-once for 08:00:00.123 lag 4 ms attempt 1 succeeded"
    assert len(line) < 80


def test_a_failed_attempt_says_why_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    record = Record(NOW, Outcome.FAILED, 2, 1, "w", NOW, 20, 503, "HTTP 503: \x1b[2Jno\nway")
    print_attempt(NOW, "a", record)
    [line] = capsys.readouterr().out.splitlines()
    assert line.endswith(r"attempt 2  failed  HTTP 503: \x1b[2Jno\nway")
