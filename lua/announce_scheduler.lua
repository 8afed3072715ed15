-- Count a scheduler as alive, and note a start of the deployment if it begins while none is.
-- Safe because: who is gone is dropped, looked for and followed in one step, so of several that begin at once one is the first;
-- and one whose answer was lost finds itself alive.
-- KEYS: schedulers starts
-- ARGV: holder now ttl_ms begins
--       begins is 1 with the first word of a process, else 0
-- Reply: {{name, …}, {start, …}}: who is alive, and the newest starts, oldest first
-- Error: none
local schedulers = KEYS[1]
local starts = KEYS[2]
local holder = ARGV[1]
local now = tonumber(ARGV[2])
local ttl_ms = tonumber(ARGV[3])
local begins = ARGV[4]
local KEPT = 100

local alive = redis.call('ZCOUNT', schedulers, string.format('(%.0f', now), '+inf')
local newest = redis.call('ZRANGE', starts, -1, -1)[1]

redis.call('ZREMRANGEBYSCORE', schedulers, '-inf', string.format('%.0f', now))
if begins == '1' and alive == 0 then
  -- The clock may have been set back: a start comes after those before it.
  local at = string.format('%.0f', math.max(now, tonumber(newest or 0) + 1))
  redis.call('ZADD', starts, at, at)
  redis.call('ZREMRANGEBYRANK', starts, 0, -KEPT - 1)
end
redis.call('ZADD', schedulers, string.format('%.0f', now + ttl_ms), holder)
return { redis.call('ZRANGE', schedulers, 0, -1), redis.call('ZRANGE', starts, 0, -1) }
