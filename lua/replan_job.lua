-- Give a job another next time, because a calendar or new rules of its zone have moved it. Nothing else of the job changes.
-- Safe because: the time was worked out on the `next_run_at` that was read, and counts only while that still stands; the
-- index changes in the same step.
-- KEYS: job runs buckets ledger
-- ARGV: id due_at next_run_at skipped due_prefix history_limit ledger_limit
--       due_at is the `next_run_at` that was read; next_run_at '' means no time to come; skipped is a record of the old time,
--       if that is lost, or ''
-- Reply: OK
-- Error: NOT_FOUND CONFLICT
--@include lib/due
--@include lib/head
--@include lib/records
local job = KEYS[1]
local runs = KEYS[2]
local buckets = KEYS[3]
local ledger = KEYS[4]
local id = ARGV[1]
local due_at = ARGV[2]
local next_run_at = ARGV[3]
local skipped = ARGV[4]
local due_prefix = ARGV[5]
local history_limit = tonumber(ARGV[6])
local ledger_limit = tonumber(ARGV[7])

local head = head_at(job)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if head.next_run_at ~= due_at then
  return redis.error_reply('CONFLICT job ' .. id .. ' has another time since it was read')
end
local member = head.plan .. '|' .. id
touch_due(buckets, due_prefix, due_at, head.queue, member)
touch_due(buckets, due_prefix, next_run_at, head.queue)
redis.call('EXISTS', ledger, runs)

local is_active = head.state == 'active'
if is_active then
  forget_due(buckets, due_prefix, due_at, head.queue, member)
end
change_head(job, { state = next_run_at == '' and 'completed' or head.state, next_run_at = next_run_at })
if is_active and next_run_at ~= '' then
  add_due(buckets, due_prefix, bucket_of(next_run_at), { next_run_at, member })
end
local events = { '["replanned","' .. id .. '"]' }
if skipped ~= '' then
  add_skipped(runs, history_limit, events, id, skipped)
end
add_events(ledger, ledger_limit, events)
return redis.status_reply('OK')
