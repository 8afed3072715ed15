"""The wire vectors: what the contract in lua/README.md asks of a consumer, in every language.

A vector is a file of tests/contract/vectors:

    about   what it shows
    jobs    jobs for the queue `mail`, as `POST /v1/jobs` takes them; they run at once
    steps   what is done, in this order: `do`, who does it (`consumer`), and what that `gives`
    ends    by job: what its history says then; `letter` has fields of its dead letter

Most steps are a consumer's (tests/consumers/driver.py), the others are of the deployment around it.
`$mail` stands for the id of the execution of job `mail`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import driving
import httpx
import pytest
from seeding import fire

from engine.plan import parse_instant
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.limits import QueueSettings, write_queue
from engine.store.server import time_ms

port_server = driving.port_server
port_store = driving.port_store
scripts = driving.scripts
node_example = driving.node_example
node_driver = driving.node_driver
python_driver = driving.python_driver

QUEUE = driving.QUEUE
VECTORS = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((driving.ROOT / "tests/contract/vectors").glob("*.json"))
}
LANGUAGES = ["python", "node"]


class Around:
    """The deployment around a vector's consumers."""

    def __init__(self, store: Store, client: httpx.AsyncClient) -> None:
        self.store, self.client = store, client
        self.ids: dict[str, str] = {}

    async def create(self, jobs: list[dict[str, Any]]) -> None:
        for job in jobs:
            body = {**job, "target": {"type": "worker"}, "queue": QUEUE}
            answer = await self.client.post("/v1/jobs", json=body)
            assert answer.status_code == 201, answer.text
            self.ids[f"${job['job_id']}"] = answer.json()["execution_id"]

    def named(self, value: Any) -> Any:
        """Return a value of a vector with the ids that it stands for."""
        if isinstance(value, dict):
            return {name: self.named(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self.named(part) for part in value]
        return self.ids.get(value, value) if isinstance(value, str) else value

    async def do(self, step: dict[str, Any], driver: driving.Driver) -> None:
        """Make a step; fails where it gives something else than it is to give."""
        job_id = step.get("job", "")
        match step["do"]:
            case "pause":
                await write_queue(self.store, step["queue"], QueueSettings(paused=True))
            case "resume":
                await write_queue(self.store, step["queue"], QueueSettings())
            case "fire":
                shard = self.store.layout.shard_of(job_id)
                await fire(self.store, shard, await time_ms(self.store.client))
            case "cancel":
                await cancel_executions(self.store, job_id, await time_ms(self.store.client))
            case "delete":
                await self.client.delete(f"/v1/jobs/{job_id}")
            case "redrive":
                path = f"/v1/dead/{self.ids[f'${job_id}']}/redrive"
                assert (await self.client.post(path)).is_success
                await self.do({"do": "fire", "job": job_id}, driver)
            case "read_all":
                read = {**step, "do": "read"}
                count = 0
                while found := await asyncio.to_thread(driver.ask, read):
                    count += len(found)
                assert count == step["gives"]
            case _:
                gives = await asyncio.to_thread(driver.ask, step)
                assert gives == self.named(step["gives"]), step

    async def check_end(self, job_id: str, end: dict[str, Any]) -> None:
        """Fails unless the history of a job is as a vector says."""
        [execution] = (await self.client.get(f"/v1/jobs/{job_id}/executions")).json()
        wanted = dict(end)
        if bounds := wanted.pop("retry_in_ms", None):
            now = await time_ms(self.store.client)
            assert bounds[0] <= parse_instant(execution["retry_at"]) - now <= bounds[1]
        if letter := wanted.pop("letter", None):
            shard = self.store.layout.shard_of(job_id)
            key = shard.letter(self.ids[f"${job_id}"])
            stored = await self.store.client.hmget(key, "reason", "attempt")
            assert stored == [letter["reason"].encode(), str(letter["attempt"]).encode()]
        attempts = wanted.pop("attempts", None)
        assert {name: execution.get(name) for name in wanted} == wanted
        if attempts is not None:
            names = ("outcome", "attempt", "worker", "error")
            shown = [{name: one[name] for name in names} for one in execution["attempts"]]
            assert shown == attempts


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", VECTORS)
async def test_a_consumer_passes_the_vector(
    name: str, language: str, port_store: Store, request: pytest.FixtureRequest
) -> None:
    vector = VECTORS[name]
    driver: driving.Driver = request.getfixturevalue(f"{language}_driver")
    await asyncio.to_thread(driver.ask, {"do": "reset"})
    async with driving.calling(port_store) as client:
        around = Around(port_store, client)
        await around.create(vector["jobs"])
        for step in vector["steps"]:
            await around.do(step, driver)
        for job_id, end in vector["ends"].items():
            await around.check_end(job_id, end)
        left = {job["job_id"] for job in (await client.get("/v1/jobs")).json()["jobs"]}
        assert left == vector["ends"].keys()


def test_there_are_vectors_for_all_that_the_contract_names() -> None:
    named = {"read", "heartbeat", "complete_twice", "lost_lease", "fail", "poison"}
    assert named <= VECTORS.keys()
