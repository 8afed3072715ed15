"""What tests of jobs that depend on jobs call: a scheduler and a relay to step, and workers that
claim over HTTP and say how it went."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from calling import create
from fleet import keep
from invariants import read_shard

from engine.clock import ManualClock
from engine.relay import Relay
from engine.store import Store
from engine.store.jobs import run_job

WORKER = {"target": {"type": "worker"}}
FAR = "2030-01-01T00:00:00Z"
"""When roots are due by themselves: tests run them by hand."""


class Flow:
    """A deployment that a test steps. `claimed` holds all that workers were handed."""

    def __init__(self, client: httpx.AsyncClient, store: Store, clock: ManualClock) -> None:
        self.client = client
        self.store = store
        self.clock = clock
        self.claimed: list[dict[str, Any]] = []
        self.keeper, self.scheduler = keep(store, clock)
        self.relay = Relay(store, clock, self.keeper)

    async def start(self, job_id: str) -> int:
        """Run a job by hand; return the nominal time."""
        return int((await run_job(self.store, job_id, self.clock.now_ms())).partition("@")[2])

    async def work(self, ends: dict[str, dict[str, Any]] | None = None) -> None:
        """Claim and end all that there is, again and again: as `ends` says by job, else well.
        A job whose end is {} keeps its execution."""
        await self.keeper.step()
        while True:
            await self.scheduler.step()
            before = len(self.claimed)
            while (claimed := await self._claim()) is not None:
                self.claimed.append(claimed)
                if (end := (ends or {}).get(claimed["job_id"], {"status": "succeeded"})) != {}:
                    await self.end(claimed, **end)
            relayed = self.relay.relayed
            await self.relay.step(block=False)
            if (before, relayed) == (len(self.claimed), self.relay.relayed):
                return

    async def _claim(self) -> dict[str, Any] | None:
        answer = await self.client.post("/internal/executions/claim", json={"worker": "w1"})
        if answer.status_code == 204:
            return None
        claimed: dict[str, Any] = answer.json()
        return claimed

    async def end(self, claimed: dict[str, Any], **end: Any) -> None:
        answer = await self.client.post(
            f"/internal/executions/{claimed['execution_id']}/complete",
            json={"lease": claimed["lease"], **end},
        )
        assert answer.status_code == 200, answer.text

    @property
    def ran(self) -> list[tuple[str, int]]:
        """Job and attempt of all that was claimed, in that order."""
        return [(claimed["job_id"], claimed["attempt"]) for claimed in self.claimed]

    def take(self) -> list[str]:
        """Return the jobs that were claimed since the last call, by name."""
        jobs, self.claimed = sorted(one["job_id"] for one in self.claimed), []
        return jobs


@pytest.fixture
def flow(client: httpx.AsyncClient, store: Store, clock: ManualClock) -> Flow:
    return Flow(client, store, clock)


async def root(client: httpx.AsyncClient, job_id: str) -> None:
    await create(client, {**WORKER, "job_id": job_id, "schedule_expr": FAR, "overlap": "allow"})


async def after(
    client: httpx.AsyncClient, job_id: str, *upstreams: str | dict[str, str], **more: Any
) -> dict[str, Any]:
    """Create a job that depends on others; return it."""
    return await create(client, {**WORKER, "job_id": job_id, "depends_on": [*upstreams], **more})


async def diamond(client: httpx.AsyncClient) -> None:
    """a above b and c, and both above d."""
    await root(client, "a")
    await after(client, "b", "a")
    await after(client, "c", "a")
    await after(client, "d", "b", "c")


async def edges(store: Store) -> dict[str, set[str]]:
    """Return the upstream jobs of each job: graph, upstream jobs and the job itself must agree."""
    said: dict[str, dict[str, set[str]]] = {"graph": {}, "above": {}, "own": {}}
    for job_id, row in (await store.client.hgetall("wc:graph")).items():
        said["graph"][job_id.decode()] = set(row.decode().split()[1:])
    for shard in store.layout.shards:
        for key, value in (await read_shard(store, shard)).items():
            kind, _, job_id = key.partition(":")
            if kind == "dependents":
                for below in value:
                    said["above"].setdefault(below, set()).add(job_id)
            elif kind == "job" and "upstreams" in value:
                said["own"][job_id] = {name[1:] for name in value["upstreams"].split()}
    assert said["graph"] == said["above"] == said["own"], said
    return said["own"]
