"""Dead letters that all redrive at once: row 103 of the list of abuses."""

from __future__ import annotations

import asyncio

import httpx
from burying import delivered, die
from calling import AT_ONCE, create
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace

from engine.store import Store


async def test_row_103_redriving_all_at_once_from_all_sides_redrives_each_once(
    client: httpx.AsyncClient, store: Store
) -> None:
    letters = []
    for n in range(5):
        await create(client, {**AT_ONCE, "job_id": f"m{n}"})
        letters.append(await die(store, await delivered(store, f"m{n}")))
    answers = await asyncio.gather(
        *(client.post("/v1/dead/redrive", json={"all": True}) for _ in range(100))
    )
    assert {answer.status_code for answer in answers} == {200}
    assert sum(answer.json()["redriven"] for answer in answers) == 5
    for n, letter in enumerate(letters):
        found = (await client.get(f"/v1/jobs/m{n}/executions")).json()
        assert [one["execution_id"] for one in found] == [letter]
