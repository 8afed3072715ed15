"""The yardstick: the least Redis work that a fire and a completion need, in one bare Lua loop each.

A look at the fence and the commands that move a job on and hand it over: no compare, no ledger, no
limits, no history of skips. No engine of this data model can do with less. It runs on the server
that a scenario uses, in the same run, before its own part and after, so that a ratio means
something on a noisy machine.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.stage import Metrics

BATCH = 250
TOKEN = "7"
DUE_AT = 1_700_000_040_000
DAY_MS = 86_400_000
MOST_JOBS = 100_000

FIRE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('FENCED')
end
local due = redis.call('ZRANGE', KEYS[2], '-inf', ARGV[2], 'BYSCORE', 'LIMIT', 0, ARGV[3], 'WITHSCORES')
local leaving, coming = {}, {}
for i = 1, #due, 2 do
  local id, at = due[i], due[i + 1]
  local key = ARGV[4] .. id
  local job = redis.call('HMGET', key, 'plan', 'queue', 'payload')
  redis.call('XADD', KEYS[3], '*', 'execution_id', id .. '@' .. at, 'job', id, 'at', at, 'attempt', '1', 'payload', job[3])
  redis.call('HSET', key, 'next_run_at', ARGV[5], 'x:' .. at, 'ready')
  leaving[#leaving + 1] = id
  coming[#coming + 1] = ARGV[5]
  coming[#coming + 1] = id
end
if #leaving > 0 then
  redis.call('ZREM', KEYS[2], unpack(leaving))
  if ARGV[5] ~= '' then
    redis.call('ZADD', KEYS[4], unpack(coming))
  end
end
return #leaving"""  # noqa: E501
"""A one-off has no next time (ARGV[5]), and goes to no later bucket."""

COMPLETE = """
local done = 0
for i = 1, #ARGV, 3 do
  local entry, id, at = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local pending = redis.call('XPENDING', KEYS[1], 'workers', entry, entry, 1)[1]
  if pending and pending[2] == 'floor' then
    redis.call('XACK', KEYS[1], 'workers', entry)
    redis.call('XDEL', KEYS[1], entry)
    redis.call('HDEL', '{floor}job:' .. id, 'x:' .. at)
    local runs = '{floor}runs:' .. id
    redis.call('LPUSH', runs, '[' .. at .. ',"succeeded",1,1,"floor",4,2,200]')
    redis.call('LTRIM', runs, 0, 49)
    done = done + 1
  end
end
return done"""


async def measure_floor(client: Any, jobs: int, payload: bytes) -> Metrics:
    """Return the fires and completions of recurring jobs a second, and the CPU time of the server
    that each took: `floor_…_per_s`, `floor_redis_us_per_…`. Leaves nothing behind."""
    jobs = min(jobs, MOST_JOBS)
    await _register(client, jobs, payload)
    fires_per_s, fire_us = await _cost(client, lambda: _fire(client, str(DUE_AT + DAY_MS)))
    completions_per_s, completion_us = await _cost(client, lambda: _complete(client))
    await _clear(client)
    return {
        "floor_fires_per_s": fires_per_s,
        "floor_redis_us_per_fire": fire_us,
        "floor_completions_per_s": completions_per_s,
        "floor_redis_us_per_completion": completion_us,
    }


async def measure_oneoff_floor(client: Any, jobs: int, payload: bytes) -> Metrics:
    """Return the same of fires of one-off jobs: `floor_oneoff_fires_per_s`, `…_us_per_…`."""
    await _register(client, min(jobs, MOST_JOBS), payload)
    fires_per_s, fire_us = await _cost(client, lambda: _fire(client, ""))
    await _clear(client)
    return {"floor_oneoff_fires_per_s": fires_per_s, "floor_oneoff_redis_us_per_fire": fire_us}


def mean(*measured: Metrics) -> Metrics:
    """Return the mean of each figure: of the floor before a scenario's own part, and after."""
    return {name: sum(one[name] for one in measured) / len(measured) for name in measured[0]}


async def server_cpu_s(client: Any) -> float:
    """Return the seconds of CPU time that the server has used."""
    cpu = await client.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


async def _register(client: Any, jobs: int, payload: bytes) -> None:
    pipe = client.pipeline(transaction=False)
    pipe.set("{floor}fence", TOKEN)
    pipe.xgroup_create("{floor}ready", "workers", id="0", mkstream=True)
    for n in range(jobs):
        job_id = f"job-{n:012x}"
        pipe.hset(
            "{floor}job:" + job_id,
            mapping={
                "plan": "0 0 * * *|UTC",
                "queue": "http",
                "payload": payload,
                "next_run_at": DUE_AT,
                "state": "active",
            },
        )
        pipe.zadd("{floor}due", {job_id: DUE_AT})
        if n % 1_000 == 999:
            await pipe.execute()
    await pipe.execute()


async def _cost(client: Any, work: Callable[[], Awaitable[int]]) -> tuple[float, float]:
    """Return how many of what `work` counts are done a second, and the server's us for each."""
    cpu_s, started = await server_cpu_s(client), time.perf_counter()
    count = await work()
    elapsed = time.perf_counter() - started
    return count / elapsed, (await server_cpu_s(client) - cpu_s) / count * 1e6


async def _fire(client: Any, next_at: str) -> int:
    script = client.register_script(FIRE)
    keys = ["{floor}fence", "{floor}due", "{floor}ready", "{floor}later"]
    args = [TOKEN, DUE_AT, BATCH, "{floor}job:", next_at]
    fired = 0
    while count := await script(keys=keys, args=args):
        fired += count
    return fired


async def _complete(client: Any) -> int:
    script = client.register_script(COMPLETE)
    done = 0
    while rows := await client.xreadgroup("workers", "floor", {"{floor}ready": ">"}, count=BATCH):
        args: list[bytes] = []
        for entry_id, fields in rows[0][1]:
            args += [entry_id, fields[b"job"], fields[b"at"]]
        done += await script(keys=["{floor}ready"], args=args)
    return done


async def _clear(client: Any) -> None:
    async for key in client.scan_iter("{floor}*", count=10_000):
        await client.unlink(key)
