"""Whatever is a job can be declared: applied, exported and planned again it is the same."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import calling
import httpx
import test_declared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_declared import NOTHING, Bridge, apply, plan, run

from api.calendars import PutCalendar
from api.schemas import CreateJob

client = calling.client
clock = calling.clock
api = test_declared.api

EXPRESSIONS = (
    *("0 9 * * *", "*/7 2-5 1,15 * MON-FRI", "@hourly", "every 90s", "every 2h", "rate(5 minutes)"),
    *("cron(0 12 * * ? *)", "H H(2-4) * * *", "R/PT15M", "Mon..Fri *-*-* 09:00", None),
    *("2027-06-01T09:00:00+02:00", "at(2027-06-01T09:00:00)", "FREQ=DAILY;BYHOUR=3"),
    ["0 9 * * *", "30 17 * * 5"],
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(
        ["no", "on", "1e3", "010", "12:30", "2027-01-01", "~", "<<", "null", "=", "\n"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
TARGETS = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("http"),
            "url": st.sampled_from(["https://example.com/a?b=1", "http://é.fr/"]),
        },
        optional={
            "headers": st.dictionaries(st.sampled_from(["X-A", "x-b", "Authorization"]), NAMES),
            "timeout_ms": st.integers(100, 60_000),
            "follow_redirects": st.integers(0, 10),
            "respond_async": st.booleans(),
        },
    ),
    st.fixed_dictionaries({"type": st.just("worker")}, optional={"handler": NAMES}),
    st.fixed_dictionaries(
        {"type": st.just("shell"), "command": st.sampled_from(["true", "a | b\n  c: d\n", "# x"])},
        optional={"env": st.dictionaries(st.sampled_from(["A", "B_C"]), NAMES)},
    ),
)
BODIES = st.fixed_dictionaries(
    {"target": TARGETS},
    optional={
        "schedule_expr": st.sampled_from(EXPRESSIONS),
        "timezone": st.sampled_from(["UTC", "Europe/Paris", "America/New_York"]),
        "dst_gap": st.sampled_from(["run_after", "skip"]),
        "dst_overlap": st.sampled_from(["first", "both"]),
        "start_at": st.just("2027-02-01T00:00:00Z"),
        "end_at": st.just("2029-02-01T00:00:00.5+01:00"),
        "window_ms": st.integers(0, 60_000),
        "misfire": st.fixed_dictionaries(
            {}, optional={"policy": st.just("skip"), "grace_ms": st.integers(0, 10**6)}
        ),
        "payload": VALUES,
        "queue": st.sampled_from(["default", "mail"]),
        "retry": st.fixed_dictionaries(
            {},
            optional={
                "max_attempts": st.integers(1, 9),
                "backoff": st.sampled_from(["fixed", "linear", "exponential"]),
                "on": st.just(["timeout", "5xx"]),
            },
        ),
        "priority": st.sampled_from(["high", "normal", "low"]),
        "group": NAMES,
        "tags": st.lists(NAMES, max_size=3, unique=True),
        "overlap": st.sampled_from(["skip", "allow", "queue_one", "replace"]),
        "max_runs": st.integers(1, 10),
        "expires_after_ms": st.integers(1, 10**6),
        "pause_after_failures": st.integers(1, 9),
        "depends_on": st.lists(
            st.sampled_from(["root", {"job": "root", "condition": "failed"}]), max_size=1
        ),
        "join": st.sampled_from(["all", "any"]),
        "gate": st.booleans(),
        "paused": st.booleans(),
    },
)
ROOT = {"schedule_expr": "@daily", "target": {"type": "worker"}}


async def _is_taken(client: httpx.AsyncClient, body: dict[str, Any]) -> bool:
    """Return whether the API takes a body; it is taken back at once."""
    answer = await client.post("/v1/jobs", json={**body, "job_id": "it"})
    if answer.status_code == 201:
        await client.delete("/v1/jobs/it")
    return answer.status_code == 201


async def test_a_job_that_was_applied_and_exported_is_the_same_again(
    api: Bridge, client: httpx.AsyncClient
) -> None:
    taken = 0
    loop = asyncio.get_running_loop()

    async def try_one(body: dict[str, Any]) -> None:
        nonlocal taken
        await client.post("/v1/jobs", json={**ROOT, "job_id": "root"})
        if not await _is_taken(client, body):
            return
        taken += 1
        text = json.dumps({"waterclock": 1, "owner": "me", "jobs": {"it": body, "root": ROOT}})
        await apply(text)
        assert await plan(text) == NOTHING
        first = (await run("export", "--all", "--owner", "me")).stdout
        assert await plan(first) == NOTHING, first
        await apply('{"waterclock": 1, "owner": "me"}')
        await apply(first)
        assert (await run("export", "--all", "--owner", "me")).stdout == first
        await apply('{"waterclock": 1, "owner": "me"}')

    @settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck], database=None)
    @given(BODIES)
    def each(body: dict[str, Any]) -> None:
        asyncio.run_coroutine_threadsafe(try_one(body), loop).result(30)

    await asyncio.to_thread(each)
    assert taken > 10


GARBAGE = VALUES | st.sampled_from(["every 5m", "UTC", {"type": "worker"}, {"type": []}, [[]]])
FIELDS = st.dictionaries(st.sampled_from([*CreateJob.model_fields, "other"]), GARBAGE, max_size=5)
SETTINGS = st.dictionaries(st.sampled_from([*PutCalendar.model_fields, "rate", "burst"]), GARBAGE)


async def test_whatever_stands_in_a_file_is_taken_or_refused(api: Bridge) -> None:
    loop = asyncio.get_running_loop()

    async def try_one(content: dict[str, Any]) -> None:
        result = await run("plan", "-", text=json.dumps({"waterclock": 1, **content}))
        assert result.exit_code in (0, 1, 2)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info

    @settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck], database=None)
    @given(
        st.fixed_dictionaries(
            {"jobs": st.dictionaries(NAMES, FIELDS | GARBAGE, max_size=2)},
            optional={
                "defaults": FIELDS | GARBAGE,
                "owner": GARBAGE,
                "calendars": st.dictionaries(NAMES | TEXTS, SETTINGS | GARBAGE, max_size=2),
                "queues": st.dictionaries(NAMES | TEXTS, SETTINGS | GARBAGE, max_size=2),
                "hosts": st.dictionaries(NAMES | TEXTS, SETTINGS | GARBAGE, max_size=2),
            },
        )
    )
    def each(content: dict[str, Any]) -> None:
        asyncio.run_coroutine_threadsafe(try_one(content), loop).result(30)

    await asyncio.to_thread(each)
