-- Read what there is to know about a shard's gates: permits and counts, what waits for them, and how much of some queues
-- nobody has started.
-- Safe because: it only reads; granting is an addition, and only one grants.
-- KEYS: gates buckets
-- ARGV: due_prefix ready_prefix first limit streams...
--       `limit` of the buckets that hold something, from place `first` on; streams are names of ready streams
-- Reply: {{field, value, …}, {bucket, how many wait in it, …}, how many buckets there are, {entries that no consumer has, …}}
-- Error: none
-- Flags: no-writes
--@include lib/delivery
local gates = KEYS[1]
local buckets = KEYS[2]
local due_prefix = ARGV[1]
local ready_prefix = ARGV[2]
local first = ARGV[3]
local limit = ARGV[4]
local streams = 5

local waiting, unread = {}, {}
for _, bucket in ipairs(redis.call('ZRANGE', buckets, '+inf', '+inf', 'BYSCORE', 'LIMIT', first, limit)) do
  waiting[#waiting + 1] = bucket
  waiting[#waiting + 1] = redis.call('ZCARD', due_prefix .. bucket)
end
for n = streams, #ARGV do
  local ready = ready_prefix .. ARGV[n]
  local held = has_group(ready) and redis.call('XPENDING', ready, 'workers')[1] or 0
  unread[#unread + 1] = redis.call('XLEN', ready) - held
end
return { redis.call('HGETALL', gates), waiting, redis.call('ZCOUNT', buckets, '+inf', '+inf'), unread }
