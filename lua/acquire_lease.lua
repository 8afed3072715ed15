-- Grant a shard's lease to a scheduler, or extend the one that it holds.
-- A grant takes the next fencing token, max(newest + 1, server time in ms): a failover can rewind a plain counter.
-- Safe because: firing compares token and holder with the newest grant; a second grant makes the first one harmless.
-- KEYS: lease fence
-- ARGV: holder ttl_ms
-- Reply: {token, ttl left in ms} when the lease is the caller's; {'', ttl left} when somebody else holds it
-- Error: none

local lease = KEYS[1]
local fence = KEYS[2]
local holder = ARGV[1]
local ttl_ms = ARGV[2]

local current = redis.call('GET', lease)
local newest = redis.call('HMGET', fence, 'token', 'holder')
if current and current ~= holder then
  return { '', redis.call('PTTL', lease) }
end
if current and newest[2] == holder then
  redis.call('PEXPIRE', lease, ttl_ms)
  return { newest[1], tonumber(ttl_ms) }
end

local now = redis.call('TIME')
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local token = string.format('%.0f', math.max(tonumber(newest[1] or 0) + 1, now_ms))
redis.call('HSET', fence, 'token', token, 'holder', holder)
redis.call('SET', lease, holder, 'PX', ttl_ms)
return { token, tonumber(ttl_ms) }
