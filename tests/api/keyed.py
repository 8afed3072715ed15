"""What tests of an API that asks for keys begin with: keys, a client, and what others have.

`FOREIGN` is a job of group b with an execution that is live and one that is dead. For a key that is
restricted to group a it is as good as `ABSENT`, which is not there at all.

Test modules take the fixture by name: `world = keyed.world`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from burying import delivered, die
from calling import CRON, NOW, calling

from engine.access import Quotas, Scope
from engine.clock import ManualClock
from engine.store import Store
from engine.store.api_keys import create_api_key

FOREIGN, ABSENT = "theirs", "absent"


async def make_key(
    store: Store,
    *scopes: str,
    groups: tuple[str, ...] | None = None,
    expires_in_ms: int | None = None,
    **quotas: Any,
) -> str:
    """Return a new key. One that is made while an API runs is known there a second later."""
    _, text = await create_api_key(
        store,
        NOW,
        name="a test's",
        scopes=[Scope(scope) for scope in scopes or ("admin",)],
        groups=groups,
        expires_in_ms=expires_in_ms,
        quotas=Quotas(**quotas),
    )
    return text


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@asynccontextmanager
async def asking(store: Store, clock: ManualClock) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API that asks for keys. Some must have been made."""
    config = store.config.model_copy(update={"auth": "required"})
    async with calling(config, store, clock) as client:
        yield client


def move_to(clock: ManualClock, at: int) -> None:
    clock.advance(at - clock.now_ms())


class World:
    """A deployment with things of group b, and a key for each kind of caller."""

    def __init__(self, client: httpx.AsyncClient, keys: dict[str, str]) -> None:
        self.client = client
        self.keys = keys


@pytest.fixture
async def world(store: Store, clock: ManualClock) -> AsyncIterator[World]:
    keys = {
        "admin": await make_key(store, "admin"),
        "a": await make_key(store, "write", groups=("a",)),
        "a and c": await make_key(store, "write", groups=("a", "c")),
        "b": await make_key(store, "write", groups=("b",)),
        "read": await make_key(store, "read"),
        "write": await make_key(store, "write"),
        "worker": await make_key(store, "worker"),
        "expired": await make_key(store, "admin", expires_in_ms=60_000),
        "revoked": await make_key(store, "admin"),
    }
    async with asking(store, clock) as client:
        admin = bearer(keys["admin"])
        revoked = await client.delete(f"/v1/keys/{keys['revoked'][4:20]}", headers=admin)
        assert revoked.status_code == 204
        yield World(client, keys)


async def settle_foreign(world: World, store: Store) -> None:
    """Make the job of group b, with a live execution and a dead one."""
    client, admin = world.client, bearer(world.keys["admin"])
    foreign = {**CRON, "job_id": FOREIGN, "group": "b", "target": {"type": "worker"}}
    assert (await client.post("/v1/jobs", json=foreign, headers=admin)).status_code == 201
    run = await client.post(f"/v1/jobs/{FOREIGN}/run", headers=admin)
    assert run.status_code == 202, run.text
    await die(store, await delivered(store, FOREIGN))
    again = await client.post(f"/v1/jobs/{FOREIGN}/run", headers=admin)
    assert again.status_code == 202, again.text


def job(job_id: str, **more: Any) -> dict[str, Any]:
    return {**CRON, "job_id": job_id, **more}


async def link(world: World, job_id: str, group: str, *upstreams: str) -> None:
    body = {"job_id": job_id, "target": {"type": "worker"}, "group": group}
    body |= {"depends_on": [*upstreams]} if upstreams else {"schedule_expr": "every 1h"}
    admin = bearer(world.keys["admin"])
    answer = await world.client.post("/v1/jobs", json=body, headers=admin)
    assert answer.status_code == 201, answer.text


def told(answer: httpx.Response, job_id: str) -> tuple[Any, ...]:
    """Return all that an answer says, but for the ids that were asked for."""
    group = "b" if job_id == FOREIGN else "z"
    text = answer.text.replace(job_id, "…").replace(f"group {group}", "group …")
    return answer.status_code, dict(answer.headers), text
