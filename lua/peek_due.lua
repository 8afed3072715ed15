-- Read what is due in one shard: the oldest minute that has something due, and what waits for room in queues that have some.
-- Safe because: it only reads; committing compares again.
-- KEYS: buckets
-- ARGV: due_prefix ready_prefix now limit max_ready
-- Reply: {earliest due time or '', bucket, {member, due_at, …}, bucket, {…}, …}: `limit` members a bucket at the most
-- Error: none
-- Flags: no-writes

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

-- The first open minute that is not wholly done; a second one only while this minute's members are all in the future.
for _, bucket in ipairs(redis.call('ZRANGE', buckets, '-inf', '(+inf', 'BYSCORE', 'LIMIT', 0, 2)) do
  local due = redis.call('ZRANGE', due_prefix .. bucket, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  if #due > 0 then
    reply[1] = due[2]
    reply[#reply + 1] = bucket
    reply[#reply + 1] = due
    break
  end
  local first = redis.call('ZRANGE', due_prefix .. bucket, 0, 0, 'WITHSCORES')
  if #first > 0 then
    reply[1] = first[2]
    break
  end
end
return reply
