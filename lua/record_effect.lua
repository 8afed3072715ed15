-- Record what a side effect of an execution gave, so that another delivery of it does not repeat the effect.
-- Safe because: only who holds the delivery records, and what is recorded once stays as it is.
-- KEYS: ready effects
-- ARGV: entry consumer deliveries name result keep_ms
-- Reply: the result that stands: this one, or the one that was recorded before
-- Error: STALE_DELIVERY
--@include lib/delivery
local ready = KEYS[1]
local effects = KEYS[2]
local entry = ARGV[1]
local consumer = ARGV[2]
local deliveries = ARGV[3]
local name = ARGV[4]
local result = ARGV[5]
local keep_ms = ARGV[6]

if not has_group(ready) or not holds(ready, entry, consumer, deliveries) then
  return redis.error_reply('STALE_DELIVERY the lease of this execution is with somebody else; nothing was recorded')
end
local known = redis.call('HGET', effects, name)
if known then
  return known
end
redis.call('HSET', effects, name, result)
redis.call('PEXPIRE', effects, keep_ms)
return result
