-- Start an execution of a job by hand, whatever its state and its schedule.
-- Its nominal time is now, moved on by a millisecond where that time is taken, so it never stands for a scheduled one.
-- Safe because: the nominal time is chosen and taken in the same script.
-- KEYS: job buckets gates ledger
-- ARGV: id now due_prefix ready_prefix max_ready ledger_limit
-- Reply: execution id
-- Error: NOT_FOUND
--@include lib/start
--@include lib/head
--@include lib/records
local job = KEYS[1]
local buckets = KEYS[2]
local gates = KEYS[3]
local ledger = KEYS[4]
local id = ARGV[1]
local now = tonumber(ARGV[2])
local due_prefix = ARGV[3]
local ready_prefix = ARGV[4]
local max_ready = tonumber(ARGV[5])
local ledger_limit = tonumber(ARGV[6])

local known = redis.call('HMGET', job, 'head', 'ran_at', 'target', 'payload', 'expires_after_ms', 'group')
local head, ran_at, target, payload, expires_after_ms, group = read_head(known[1]), unpack(known, 2, 6)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
local queue = head.queue
local nominal_at = string.format('%.0f', math.max(now, tonumber(ran_at or 0) + 1))
while nominal_at == head.next_run_at or redis.call('HEXISTS', job, 'x:' .. nominal_at) == 1 do
  nominal_at = string.format('%.0f', tonumber(nominal_at) + 1)
end
touch_due(buckets, due_prefix, '', queue)
redis.call('EXISTS', ledger)
local at = { ready_prefix = ready_prefix, max_ready = max_ready, gates = read_gates(gates), room = {} }
local held_in, lanes = let_in(at, queue, target, group)
redis.call('EXISTS', due_prefix .. '@', due_prefix .. (held_in or ''))

local execution_id = id .. '@' .. nominal_at
local live = start_now(held_in, lanes, buckets, due_prefix, ready_prefix .. queue, execution_id, nominal_at,
  { target, payload, head.retry, expires_after_ms })
save_gates(gates, at.gates)
redis.call('HSET', job, 'x:' .. nominal_at, live, 'ran_at', nominal_at)
count_live(job, 1)
add_events(ledger, ledger_limit, { not held_in and offered_event(execution_id, 1, nominal_at, queue) or nil })
return execution_id
