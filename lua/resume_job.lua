-- Put a paused job back into the due index, at the time that the caller chose.
-- Safe because: the choice was made on the `next_run_at` of the pause, and counts only while that still stands.
-- KEYS: job buckets runs ledger
-- ARGV: id paused_at next_run_at skipped due_prefix history_limit ledger_limit
--       paused_at is the `next_run_at` that was read; next_run_at '' completes the job; skipped is a record or ''
-- Reply: OK
-- Error: NOT_FOUND WRONG_STATE
--@include lib/due
--@include lib/records
local job = KEYS[1]
local buckets = KEYS[2]
local runs = KEYS[3]
local ledger = KEYS[4]
local id = ARGV[1]
local paused_at = ARGV[2]
local next_run_at = ARGV[3]
local skipped = ARGV[4]
local due_prefix = ARGV[5]
local history_limit = tonumber(ARGV[6])
local ledger_limit = tonumber(ARGV[7])

local state, known_at, plan, queue = unpack(redis.call('HMGET', job, 'state', 'next_run_at', 'plan', 'queue'), 1, 4)
if not state then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if state ~= 'paused' or known_at ~= paused_at then
  return redis.error_reply('WRONG_STATE job ' .. id .. ' is ' .. state .. '; only a paused job can be resumed')
end
touch_due(buckets, due_prefix, next_run_at, queue)
redis.call('EXISTS', ledger, runs)

local events = { '["resumed","' .. id .. '"]' }
redis.call('HSET', job, 'state', next_run_at == '' and 'completed' or 'active', 'next_run_at', next_run_at)
if next_run_at ~= '' then
  add_due(buckets, due_prefix, bucket_of(next_run_at), { next_run_at, plan .. '|' .. id })
end
if skipped ~= '' then
  add_skipped(runs, history_limit, events, id, skipped)
end
add_events(ledger, ledger_limit, events)
return redis.status_reply('OK')
