-- Run an execution again that has ended, with its next attempt. For the retry policy it begins anew.
-- Safe because: what is live is left alone, and its dead letter goes in the same step.
-- KEYS: job dead letter buckets ledger
-- ARGV: id nominal_at attempt now due_prefix ledger_limit
-- Reply: OK
-- Error: NOT_FOUND WRONG_STATE
--@include lib/due
--@include lib/execution
--@include lib/head
--@include lib/records
local job = KEYS[1]
local dead = KEYS[2]
local letter = KEYS[3]
local buckets = KEYS[4]
local ledger = KEYS[5]
local id = ARGV[1]
local nominal_at = ARGV[2]
local attempt = ARGV[3]
local now = ARGV[4]
local due_prefix = ARGV[5]
local ledger_limit = tonumber(ARGV[6])

local execution_id = id .. '@' .. nominal_at
if redis.call('EXISTS', job) == 0 then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if redis.call('HEXISTS', job, 'x:' .. nominal_at) == 1 then
  return redis.error_reply('WRONG_STATE execution ' .. execution_id .. ' is live; cancel it, or wait for its end')
end
redis.call('EXISTS', dead, letter, buckets, ledger, due_prefix .. bucket_of(now))

redis.call('HSET', job, 'x:' .. nominal_at, place_of('due', attempt, now, '.' .. attempt - 1))
count_live(job, 1)
redis.call('ZREM', dead, execution_id)
redis.call('DEL', letter)
add_due(buckets, due_prefix, bucket_of(now), { now, execution_id })
add_events(ledger, ledger_limit, { '["rerun","' .. execution_id .. '",' .. attempt .. ']' })
return redis.status_reply('OK')
