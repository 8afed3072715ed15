-- Have a job tell another one nothing any more. What is on its way already is passed over by the one that it comes to.
-- Safe because: removing twice is removing once.
-- KEYS: job dependents
-- ARGV: dependent
-- Reply: OK
-- Error: none
-- Flags: allow-oom
local job = KEYS[1]
local dependents = KEYS[2]
local dependent = ARGV[1]

redis.call('EXISTS', job)
redis.call('ZREM', dependents, dependent)
if redis.call('EXISTS', dependents) == 0 then
  redis.call('HDEL', job, 'dependents')
end
return redis.status_reply('OK')
