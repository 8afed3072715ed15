"""The API of a deployment that is moving to another server, or has moved."""

from __future__ import annotations

import calling
import pytest
from calling import AT_ONCE, claim, create, refused

from engine.clock import ManualClock
from engine.keys import QUEUES
from engine.store import Store
from engine.store.freezing import freeze, thaw
from engine.store.phase import Phase

clock = calling.clock


@pytest.mark.parametrize("phase", Phase)
async def test_changes_are_refused_and_reads_are_answered(
    store: Store, clock: ManualClock, phase: Phase
) -> None:
    async with calling.calling(store.config, store, clock) as before:
        await create(before, AT_ONCE)
    await freeze(store, phase)
    async with calling.calling(store.config, store, clock) as client:
        for method, path in (
            ("POST", "/v1/jobs"),
            ("DELETE", "/v1/jobs/mail"),
            ("PUT", "/v1/queues/default"),
            ("PUT", "/v1/hosts/a.test"),
            ("DELETE", "/v1/calendars/office"),
        ):
            answer = await client.request(method, path, json={} if method != "DELETE" else None)
            problem = refused(answer, 503, "frozen")
            assert "nothing was changed" in problem["detail"]
        assert (await client.get("/v1/jobs/mail")).status_code == 200
        assert await store.client.exists(QUEUES) == 0
        answer = await client.post("/internal/executions/claim", json={"worker": "w1"})
        assert answer.status_code == 204


async def test_what_the_api_does_not_know_yet_the_scripts_do(
    store: Store, clock: ManualClock
) -> None:
    async with calling.calling(store.config, store, clock) as client:
        await freeze(store, Phase.FROZEN)
        refused(await client.post("/v1/jobs", json=AT_ONCE), 503, "frozen")


async def test_a_worker_ends_what_it_runs_while_the_deployment_drains(
    store: Store, clock: ManualClock
) -> None:
    async with calling.calling(store.config, store, clock) as before:
        await create(before, AT_ONCE)
        claimed = await claim(before)
    path = f"/internal/executions/{claimed['execution_id']}"
    lease = {"lease": claimed["lease"]}
    await freeze(store, Phase.FROZEN)
    async with calling.calling(store.config, store, clock) as client:
        ending = {"status": "succeeded", **lease}
        refused(await client.post(f"{path}/complete", json=ending), 503, "frozen")
        await freeze(store, Phase.DRAINING)
        assert (await client.post(f"{path}/heartbeat", json=lease)).status_code == 200
        assert (await client.post(f"{path}/complete", json=ending)).status_code == 200
    await thaw(store)
