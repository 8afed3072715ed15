"""Many jobs deleted together, as far as nothing hangs on them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.keys import GRAPH
from engine.store import Store
from engine.store.jobs import delete_call
from engine.store.secrets import forget_secrets


async def remove_plain(store: Store, job_ids: Iterable[str]) -> dict[str, Exception | None]:
    """Delete those of these jobs that neither depend on others nor are depended on; return what
    each was refused with, None for one that is deleted. The others are not in the answer:
    `remove_job` knows what to do with them.

    Sends three commands and a script for each job, all commands and all scripts together, and asks
    once for secrets that they leave behind.
    """
    plain = await _plain(store, [*job_ids])
    replies = await store.scripts.run_many([delete_call(store, job_id) for job_id in plain])
    await forget_secrets(store, plain)
    return {
        job_id: reply if isinstance(reply, Exception) else None
        for job_id, reply in zip(plain, replies, strict=True)
    }


async def _plain(store: Store, job_ids: list[str]) -> list[str]:
    pipe = store.client.pipeline(transaction=False)
    for job_id in job_ids:
        shard = store.layout.shard_of(job_id)
        pipe.hexists(shard.job(job_id), "upstreams")
        pipe.exists(shard.dependents(job_id))
        pipe.hexists(GRAPH, job_id)
    found = iter(await pipe.execute() if job_ids else [])
    return [
        job_id for job_id, *tied in zip(job_ids, found, found, found, strict=True) if not any(tied)
    ]
