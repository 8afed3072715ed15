-- Have a job tell another one how its executions end.
-- Safe because: the job and what hangs on it are in one shard; a job that comes later looks for its dependents when it is
-- created.
-- KEYS: job dependents
-- ARGV: id dependent may_be_missing
-- Reply: OK
-- Error: NOT_FOUND
--@include lib/head
local job = KEYS[1]
local dependents = KEYS[2]
local id = ARGV[1]
local dependent = ARGV[2]
local may_be_missing = ARGV[3]

local is_there = redis.call('EXISTS', job) == 1
if not is_there and may_be_missing ~= '1' then
  return redis.error_reply('NOT_FOUND there is no job ' .. id .. ' to depend on')
end
redis.call('EXISTS', dependents)

redis.call('ZADD', dependents, 0, dependent)
if is_there then
  -- A job with rules has the end of each execution look for them.
  redis.call('HSET', job, 'dependents', 1)
  change_head(job, { rules = true })
end
return redis.status_reply('OK')
