"""The yardstick: the least Redis work that a fire and a completion need, in one bare Lua loop each.

No fence, no compare, no ledger, no history of skips: what no engine of this data model can beat. It
runs on the server that a scenario uses, in the same run, so that a ratio means something on a noisy
machine.
"""

from __future__ import annotations

import time
from typing import Any

BATCH = 250
DUE_AT = 1_700_000_040_000

FIRE = """
local due = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2],
  'WITHSCORES')
local leaving, coming = {}, {}
for i = 1, #due, 2 do
  local key = ARGV[3] .. due[i]
  local job = redis.call('HMGET', key, 'next_run_at', 'queue', 'payload')
  local id = due[i] .. '@' .. due[i + 1]
  redis.call('XADD', KEYS[2], '*', 'execution_id', id, 'attempt', '1', 'payload', job[3])
  redis.call('HSET', key, 'next_run_at', ARGV[4], 'x:' .. due[i + 1], 'ready')
  leaving[#leaving + 1] = due[i]
  coming[#coming + 1] = ARGV[4]
  coming[#coming + 1] = due[i]
end
if #leaving > 0 then
  redis.call('ZREM', KEYS[1], unpack(leaving))
  redis.call('ZADD', KEYS[3], unpack(coming))
end
return #leaving"""

COMPLETE = """
local done = 0
for i = 1, #ARGV, 2 do
  local pending = redis.call('XPENDING', KEYS[1], 'workers', ARGV[i], ARGV[i], 1)[1]
  if pending and pending[2] == 'floor' then
    redis.call('XACK', KEYS[1], 'workers', ARGV[i])
    redis.call('XDEL', KEYS[1], ARGV[i])
    redis.call('HDEL', '{floor}job:' .. ARGV[i + 1], 'x:1700000040000')
    local runs = '{floor}runs:' .. ARGV[i + 1]
    redis.call('LPUSH', runs, '[1700000040000,"succeeded",1,1,"floor",4,2,200]')
    redis.call('LTRIM', runs, 0, 49)
    done = done + 1
  end
end
return done"""


async def measure_floor(client: Any, jobs: int, payload: bytes) -> dict[str, float]:
    """Return `floor_fires_per_s` and `floor_completions_per_s`; leaves nothing behind."""
    pipe = client.pipeline(transaction=False)
    for n in range(jobs):
        job_id = f"job-{n:012x}"
        pipe.hset(
            "{floor}job:" + job_id,
            mapping={"next_run_at": DUE_AT, "queue": "http", "payload": payload, "state": "active"},
        )
        pipe.zadd("{floor}due", {job_id: DUE_AT})
        if n % 1_000 == 999:
            await pipe.execute()
    await pipe.execute()
    await client.xgroup_create("{floor}ready", "workers", id="0", mkstream=True)
    fires_per_s = await _fire(client)
    completions_per_s = await _complete(client)
    async for key in client.scan_iter("{floor}*", count=10_000):
        await client.unlink(key)
    return {"floor_fires_per_s": fires_per_s, "floor_completions_per_s": completions_per_s}


async def _fire(client: Any) -> float:
    script = client.register_script(FIRE)
    fired, started = 0, time.perf_counter()
    while count := await script(
        keys=["{floor}due", "{floor}ready", "{floor}later"],
        args=[DUE_AT, BATCH, "{floor}job:", DUE_AT + 86_400_000],
    ):
        fired += count
    return fired / (time.perf_counter() - started)


async def _complete(client: Any) -> float:
    script = client.register_script(COMPLETE)
    done, started = 0, time.perf_counter()
    while rows := await client.xreadgroup("workers", "floor", {"{floor}ready": ">"}, count=BATCH):
        args: list[bytes] = []
        for entry_id, fields in rows[0][1]:
            args += [entry_id, fields[b"execution_id"].partition(b"@")[0]]
        done += await script(keys=["{floor}ready"], args=args)
    return done / (time.perf_counter() - started)
