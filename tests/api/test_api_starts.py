"""Jobs that fire at each start of the deployment, over HTTP: what they are answered as, and what is
refused."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, MINUTE, NOW, NOW_TEXT, Read, create, pointers, refused
from fleet import keep

from engine.clock import ManualClock
from engine.scheduler import Scheduler
from engine.store import Store

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

REBOOT: dict[str, Any] = {**AT_ONCE, "schedule_expr": "@reboot"}
IN_WORDS = "At each start of the deployment"


async def start(store: Store, clock: ManualClock) -> Scheduler:
    """Start the deployment a minute on."""
    clock.advance(MINUTE)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    return scheduler


async def test_such_a_job_is_active_and_has_no_next_time(client: httpx.AsyncClient) -> None:
    created = await create(client, REBOOT)
    expected = ("active", None, IN_WORDS, "vixie", "@reboot")
    names = ("state", "next_run_at", "description", "dialect", "schedule_expr")
    assert tuple(created[name] for name in names) == expected
    [listed] = (await client.get("/v1/jobs")).json()["jobs"]
    assert (listed["state"], listed["next_run_at"]) == ("active", None)
    assert (await client.get("/v1/jobs/mail/upcoming")).json() == []


async def test_a_preview_says_it_in_words(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/schedules/preview", json={"schedule_expr": "@reboot"})
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["description"], shown["dialect"], shown["times"]) == (IN_WORDS, "vixie", [])


async def test_its_executions_are_those_of_starts_and_are_explained(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await create(client, REBOOT)
    await start(store, clock)
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    at = execution["scheduled_for"]
    assert (execution["execution_id"], at) == (f"mail@{NOW + MINUTE}", "2027-01-15T08:01:00.000Z")
    fired = (await client.get("/v1/jobs/mail/explain", params={"at": at})).json()
    assert (fired["verdict"], fired["execution_id"]) == ("executed", execution["execution_id"])
    other = (await client.get("/v1/jobs/mail/explain", params={"at": NOW_TEXT})).json()
    assert (other["verdict"], other["reason"]) == ("not_scheduled", "no_clock_time")
    assert other["text"] == "The job fires at starts of the deployment, and only then."


async def test_resuming_says_which_starts_the_pause_held_back(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await create(client, {**REBOOT, "paused": True})
    await start(store, clock)
    clock.advance(MINUTE)
    asked = await client.post("/v1/jobs/mail/resume", json={"dry_run": True})
    assert asked.status_code == 200, asked.text
    answer = await client.post("/v1/jobs/mail/resume")
    assert answer.status_code in (200, 204), answer.text
    [skipped] = (await client.get("/v1/jobs/mail/executions")).json()
    assert (skipped["status"], skipped["reason"]) == ("skipped", "paused")
    assert skipped["scheduled_for"] == "2027-01-15T08:01:00.000Z"
    stood = (await client.get("/v1/jobs/mail")).json()
    assert (stood["state"], stood["next_run_at"]) == ("active", None)


async def test_others_may_depend_on_it(client: httpx.AsyncClient) -> None:
    await create(client, REBOOT)
    below = {**AT_ONCE, "job_id": "below", "depends_on": ["mail"]}
    await create(client, below)
    graph = (await client.get("/v1/jobs/mail/graph")).json()
    nodes = {node["job_id"]: (node["state"], node["next_run_at"]) for node in graph["nodes"]}
    assert nodes == {"mail": ("active", None), "below": ("active", None)}


async def test_it_can_be_run_by_hand(client: httpx.AsyncClient) -> None:
    await create(client, REBOOT)
    answer = await client.post("/v1/jobs/mail/run")
    assert answer.json()["execution_id"] == f"mail@{NOW}"


async def test_there_is_nothing_to_fill_in(client: httpx.AsyncClient, keyspace: Read) -> None:
    await create(client, REBOOT)
    before = await keyspace()
    order = {"from": "2027-01-01T00:00:00Z", "to": "2027-01-10T00:00:00Z"}
    problem = refused(await client.post("/v1/jobs/mail/backfills", json=order), 400, "bad_input")
    assert pointers(problem) == ["/from"]
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("start_at", "2028-01-01T00:00:00Z"),
        ("end_at", "2028-01-01T00:00:00Z"),
        ("window_ms", 5),
        ("misfire", {"policy": "skip"}),
    ],
)
async def test_a_field_that_means_nothing_is_named(
    client: httpx.AsyncClient, keyspace: Read, field: str, value: Any
) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={**REBOOT, field: value})
    problem = refused(answer, 400, "bad_input")
    assert pointers(problem) == [f"/{field}"]
    assert await keyspace() == before


async def test_what_every_job_has_by_default_may_be_spelled_out(
    client: httpx.AsyncClient,
) -> None:
    misfire = {"policy": "fire_once", "grace_ms": 60_000, "max_catch_up": 100}
    await create(client, {**REBOOT, "misfire": misfire, "window_ms": 0, "calendars": []})
