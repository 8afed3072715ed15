"""Jobs whose next time has moved, by a calendar or by new rules of a zone: find them, move them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from engine import codec
from engine.errors import NotSupported
from engine.execution import SkipRecord
from engine.keys import Shard
from engine.plan import Plan
from engine.scripts import Call
from engine.store import Store

BATCH = 500


async def matching_plans(
    store: Store, shard: Shard, wanted: Callable[[Plan], bool]
) -> dict[str, Plan]:
    """Return by id those plans of a shard that are wanted; one of a newer version is not."""
    plans: dict[str, Plan] = {}
    async for plan_id, data in store.client.hscan_iter(shard.plans, count=BATCH):
        with suppress(NotSupported):
            plan = Plan.from_canonical(data)
            if wanted(plan):
                plans[plan_id.decode()] = plan
    return plans


async def read_page(store: Store, shard: Shard, after: str) -> list[tuple[str, codec.Head | None]]:
    """Return the next `BATCH` jobs of a shard, each with its head, None where it has gone. `after`
    is the last id of the page before, '' for the first one."""
    start = f"({after}" if after else "-"
    ids = await store.client.zrange(shard.jobs, start, "+", bylex=True, offset=0, num=BATCH)
    names = [job_id.decode() for job_id in ids]
    pipe = store.client.pipeline(transaction=False)
    for name in names:
        pipe.hget(shard.job(name), "head")
    heads = [codec.load_head(text) if text else None for text in await pipe.execute()]
    return list(zip(names, heads, strict=True))


def replan_call(
    store: Store, job_id: str, due_at: int, next_run_at: int | None, skipped: SkipRecord | None
) -> Call:
    """Return the call that gives a job another next time, if it is due at `due_at` still; `skipped`
    says what is lost by that."""
    shard = store.layout.shard_of(job_id)
    return (
        "replan_job",
        [shard.job(job_id), shard.runs(job_id), shard.buckets, shard.ledger],
        [
            job_id,
            due_at,
            "" if next_run_at is None else next_run_at,
            b"" if skipped is None else codec.dump_record(skipped),
            shard.due_prefix,
            store.config.history_limit,
            store.config.ledger_limit,
        ],
    )
