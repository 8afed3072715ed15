-- Order a backfill: its first execution is started by the scheduler that holds the shard.
-- Safe because: it counts only while the job's newest backfill is the one that was read, and that one has ended.
-- KEYS: job backfills ledger
-- ARGV: id number definition concurrency covered place ledger_limit
--       number is that of the newest backfill that was read, 0 for none; covered is what backfills have passed before; place
--       is the first nominal time to judge
-- Reply: the new backfill's number
-- Error: NOT_FOUND CONFLICT
--@include lib/head
--@include lib/records
local job = KEYS[1]
local backfills = KEYS[2]
local ledger = KEYS[3]
local id = ARGV[1]
local number = ARGV[2]
local definition = ARGV[3]
local concurrency = ARGV[4]
local covered = ARGV[5]
local place = ARGV[6]
local ledger_limit = tonumber(ARGV[7])

local head, known, newest = unpack(redis.call('HMGET', job, 'head', 'backfill_state', 'backfill_number'), 1, 3)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if known == 'running' or known == 'cancelling' then
  return redis.error_reply('CONFLICT job ' .. id .. ' has a backfill that is ' .. known .. '; a job has one at a time')
end
if (newest or '0') ~= number then
  return redis.error_reply('CONFLICT job ' .. id .. ' has had another backfill meanwhile; look, and order again')
end
redis.call('EXISTS', backfills, ledger)

local new_number = tonumber(number) + 1
redis.call('HSET', job, 'backfill', definition, 'backfill_number', new_number, 'backfill_state', 'running',
  'backfill_concurrency', concurrency, 'backfill_covered', covered, 'backfill_at', place, 'backfill_passed', 0,
  'backfill_started', 0, 'backfill_live', 0, 'backfill_succeeded', 0, 'backfill_dead', 0)
-- A time that is due may be live of the backfill: who fires it is to look.
change_head(job, { rules = true })
redis.call('SADD', backfills, id)
add_events(ledger, ledger_limit, { '["backfill_created","' .. id .. '",' .. definition .. ']' })
return new_number
