-- Say what is at hand in some shards: the oldest member of this minute's bucket, due or not, and whether anything waits for
-- room or a permit. A small part of the work of peek_due, for shards in which that has just found nothing.
-- Safe because: it only reads; what is at hand is looked at again by peek_due.
-- KEYS: buckets...
--       of each shard
-- ARGV: bucket_name due_prefixes...
--       bucket_name is that of this minute; a due_prefix for each shard
-- Reply: {due time or '', 1 or 0, …}: for each shard that of the oldest member, and whether anything waits
-- Error: none
-- Flags: no-writes
local buckets = 1
local bucket_name = ARGV[1]
local due_prefixes = 2

local reply = {}
for n = buckets, #KEYS do
  local bucket = ARGV[due_prefixes + n - 1] .. bucket_name
  reply[2 * n - 1] = redis.call('ZRANGE', bucket, 0, 0, 'WITHSCORES')[2] or ''
  reply[2 * n] = redis.call('ZCOUNT', KEYS[n], '+inf', '+inf') > 0 and 1 or 0
end
return reply
