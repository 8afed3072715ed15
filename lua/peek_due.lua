-- Read what is due in one shard: in this minute and the last, in the oldest open one, and what waits for room in queues that have some.
-- Safe because: it only reads; committing compares again.
-- KEYS: buckets
-- ARGV: due_prefix ready_prefix now limit max_ready
-- Reply: {earliest due time or '', bucket, {member, due_at, …}, bucket, {…}, …}: `limit` members a bucket at the most
-- Error: none
-- Flags: no-writes
--@include lib/due
local buckets = KEYS[1]
local due_prefix = ARGV[1]
local ready_prefix = ARGV[2]
local now = ARGV[3]
local limit = tonumber(ARGV[4])
local max_ready = tonumber(ARGV[5])

local reply = { '' }

-- Full queues, longest waiting first within each; 100 of them a look at the most.
for _, held in ipairs(redis.call('ZRANGE', buckets, '+inf', '+inf', 'BYSCORE', 'LIMIT', 0, 100)) do
  local room = math.min(limit, max_ready - redis.call('XLEN', ready_prefix .. string.sub(held, 2)))
  if room > 0 then
    local due = redis.call('ZRANGE', due_prefix .. held, 0, room - 1, 'WITHSCORES')
    if #due > 0 then
      reply[#reply + 1] = held
      reply[#reply + 1] = due
    end
  end
end

-- This minute first and the end of the last one, so that catching up never holds up what is on time; then the oldest open
-- minute, for its share.
local current, last = bucket_of(now), bucket_of(now - BUCKET_MS)
local oldest = redis.call('ZRANGE', buckets, '-inf', '(+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
for _, bucket in ipairs({ current, last, oldest ~= current and oldest ~= last and oldest or nil }) do
  local due = redis.call('ZRANGE', due_prefix .. bucket, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  if #due > 0 then
    reply[1] = due[2]
    reply[#reply + 1] = bucket
    reply[#reply + 1] = due
  end
end
if reply[1] == '' then
  -- Nothing is due: the first open bucket holds what will be next.
  local first = oldest and redis.call('ZRANGE', due_prefix .. oldest, 0, 0, 'WITHSCORES') or {}
  reply[1] = first[2] or ''
end
return reply
