-- Take a job out of the due index until it is resumed. Executions that are live go on.
-- `next_run_at` stays: it is the first time that the pause keeps from firing.
-- Safe because: firing needs state `active`; index and state change together.
-- KEYS: job buckets ledger
-- ARGV: id note due_prefix ledger_limit
--       note is JSON that says who paused it and why
-- Reply: OK
-- Error: NOT_FOUND WRONG_STATE
--@include lib/due
--@include lib/head
--@include lib/records
local job = KEYS[1]
local buckets = KEYS[2]
local ledger = KEYS[3]
local id = ARGV[1]
local note = ARGV[2]
local due_prefix = ARGV[3]
local ledger_limit = tonumber(ARGV[4])

local head = head_at(job)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if head.state ~= 'active' then
  return redis.error_reply('WRONG_STATE job ' .. id .. ' is ' .. head.state .. '; only an active job can be paused')
end
local member = head.plan .. '|' .. id
touch_due(buckets, due_prefix, head.next_run_at, head.queue, member)
redis.call('EXISTS', ledger)

if head.next_run_at ~= '' then
  forget_due(buckets, due_prefix, head.next_run_at, head.queue, member)
end
redis.call('HDEL', job, 'resume_note')
redis.call('HSET', job, 'pause_note', note)
change_head(job, { state = 'paused' })
add_events(ledger, ledger_limit, { '["paused","' .. id .. '",' .. note .. ']' })
return redis.status_reply('OK')
