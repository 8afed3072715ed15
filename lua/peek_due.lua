-- Read what is due in one shard: in this minute and the last, in the oldest open one, and what waits for room or a permit
-- where there is some.
-- Safe because: it only reads; committing compares again.
-- KEYS: buckets gates
-- ARGV: due_prefix ready_prefix now limit max_ready
-- Reply: {earliest due time or '', bucket, {member, due_at, …}, bucket, {…}, …}: `limit` members a bucket at the most
-- Error: none
-- Flags: no-writes
--@include lib/gates
local buckets = KEYS[1]
local gates = KEYS[2]
local due_prefix = ARGV[1]
local ready_prefix = ARGV[2]
local now = ARGV[3]
local limit = tonumber(ARGV[4])
local max_ready = tonumber(ARGV[5])
local MOST_HELD = 100

local reply = { '' }

-- What waits, longest first within each bucket. Where very many buckets hold something, each look takes the next ones.
local held_count = redis.call('ZCOUNT', buckets, '+inf', '+inf')
local first = held_count > MOST_HELD and math.floor(now / 50) * MOST_HELD % held_count or 0
local looked_at = redis.call('ZRANGE', buckets, '+inf', '+inf', 'BYSCORE', 'LIMIT', first, MOST_HELD)
local over = first + MOST_HELD - held_count
if first > 0 and over > 0 then
  for _, held in ipairs(redis.call('ZRANGE', buckets, '+inf', '+inf', 'BYSCORE', 'LIMIT', 0, over)) do
    looked_at[#looked_at + 1] = held
  end
end
local by_priority = { high = {}, normal = {}, low = {} }
for _, held in ipairs(looked_at) do
  local name = string.sub(held, 2)
  local priority = string.match(name, ':(high)$') or string.match(name, ':(low)$')
  local lane = priority and string.sub(name, 1, -#priority - 2) or name
  table.insert(by_priority[priority or 'normal'], { held, is_lane(held) and lane, name })
end
local limits, left = held_count > 0 and read_gates(gates) or {}, {}
for _, priority in ipairs({ 'high', 'normal', 'low' }) do
  for _, waiting in ipairs(by_priority[priority]) do
    local held, lane, stream = unpack(waiting, 1, 3)
    local room = lane and left[lane] or limit
    if lane and not left[lane] then
      local slots, tokens = permits(limits, lane)
      room = math.min(limit, slots or limit, tokens or limit)
    elseif not lane then
      room = math.min(limit, max_ready - redis.call('XLEN', ready_prefix .. stream))
    end
    if room > 0 then
      local due = redis.call('ZRANGE', due_prefix .. held, 0, room - 1, 'WITHSCORES')
      room = room - #due / 2
      if #due > 0 then
        reply[#reply + 1] = held
        reply[#reply + 1] = due
      end
    end
    left[lane or stream] = room
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
  local next_due = oldest and redis.call('ZRANGE', due_prefix .. oldest, 0, 0, 'WITHSCORES') or {}
  reply[1] = next_due[2] or ''
end
return reply
