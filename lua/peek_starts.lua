-- Read which jobs of one shard a start of the deployment makes due: some of the oldest bucket behind all times of the clock.
-- Safe because: it only reads; committing compares again.
-- KEYS: buckets
-- ARGV: due_prefix first until_start limit
--       first is the first bucket in which such jobs can be; until_start is where jobs wait that have had this start
-- Reply: {bucket, {member, due_at, …}}, or {} if the start is carried out
-- Error: none
-- Flags: no-writes
local buckets = KEYS[1]
local due_prefix = ARGV[1]
local first = ARGV[2]
local until_start = ARGV[3]
local limit = tonumber(ARGV[4])

local bucket = redis.call('ZRANGE', buckets, first, '(+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
if not bucket then
  return {}
end
local due = redis.call('ZRANGE', due_prefix .. bucket, '-inf', '(' .. until_start, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
return #due > 0 and { bucket, due } or {}
