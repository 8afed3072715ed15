-- Have a backfill start nothing more. What is live of it goes on; with its end the backfill ends.
-- Safe because: starting needs state `running`, and compares it in the script that starts.
-- KEYS: job ledger
-- ARGV: id ledger_limit
-- Reply: OK
-- Error: NOT_FOUND WRONG_STATE
--@include lib/records
local job = KEYS[1]
local ledger = KEYS[2]
local id = ARGV[1]
local ledger_limit = tonumber(ARGV[2])

local state = redis.call('HGET', job, 'backfill_state')
if not state then
  return redis.error_reply('NOT_FOUND job ' .. id .. ' has had no backfill, or there is no such job')
end
if state ~= 'running' then
  return redis.error_reply('WRONG_STATE the backfill of job ' .. id .. ' is ' .. state .. '; only a running one can be cancelled')
end
redis.call('EXISTS', ledger)

redis.call('HSET', job, 'backfill_state', 'cancelling')
add_events(ledger, ledger_limit, { '["backfill_cancelled","' .. id .. '"]' })
return redis.status_reply('OK')
