-- Start an execution of a job by hand, whatever its state and its schedule.
-- Its nominal time is now, moved on by a millisecond where that time is taken, so it never stands for a scheduled one.
-- Safe because: the nominal time is chosen and taken in the same script.
-- KEYS: job buckets ledger
-- ARGV: id now due_prefix ready_prefix max_ready ledger_limit
-- Reply: execution id
-- Error: NOT_FOUND
--@include lib/start
--@include lib/records
local job = KEYS[1]
local buckets = KEYS[2]
local ledger = KEYS[3]
local id = ARGV[1]
local now = tonumber(ARGV[2])
local due_prefix = ARGV[3]
local ready_prefix = ARGV[4]
local max_ready = tonumber(ARGV[5])
local ledger_limit = tonumber(ARGV[6])

local known = redis.call('HMGET', job, 'next_run_at', 'ran_at', 'queue', 'target', 'payload', 'retry',
  'expires_after_ms')
local next_run_at, ran_at, queue = unpack(known, 1, 3)
if not queue then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
local nominal_at = string.format('%.0f', math.max(now, tonumber(ran_at or 0) + 1))
while nominal_at == next_run_at or redis.call('HEXISTS', job, 'x:' .. nominal_at) == 1 do
  nominal_at = string.format('%.0f', tonumber(nominal_at) + 1)
end
touch_due(buckets, due_prefix, '', queue)
redis.call('EXISTS', ledger)
local room = take_room({}, ready_prefix .. queue, max_ready)

local execution_id = id .. '@' .. nominal_at
local live = start_now(room, buckets, due_prefix, ready_prefix .. queue, execution_id, nominal_at, queue,
  { unpack(known, 4, 7) })
redis.call('HSET', job, 'x:' .. nominal_at, live, 'ran_at', nominal_at)
redis.call('HINCRBY', job, 'live', 1)
add_events(ledger, ledger_limit, { room and offered_event(execution_id, 1, nominal_at, queue) or nil })
return execution_id
