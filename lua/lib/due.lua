-- The due index: buckets of a minute each, `buckets` to find the oldest, and `@<queue>` for what waits for room.

local BUCKET_MS = 60000

local function bucket_of(due_at)
  return string.format('%.0f', math.floor(tonumber(due_at) / BUCKET_MS))
end

local function add_due(buckets, due_prefix, bucket, scored_members)
  redis.call('ZADD', due_prefix .. bucket, unpack(scored_members))
  redis.call('ZADD', buckets, tonumber(bucket) and bucket or '+inf', bucket)
end

local function remove_due(buckets, due_prefix, bucket, members)
  if #members > 0 then
    redis.call('ZREM', due_prefix .. bucket, unpack(members))
  end
  if redis.call('EXISTS', due_prefix .. bucket) == 0 then
    redis.call('ZREM', buckets, bucket)
  end
end

-- Touch what `forget_due` and `add_due` may write: a slot that is moving aborts the script here, before any write.
local function touch_due(buckets, due_prefix, due_at, queue)
  local minute = due_at ~= '' and bucket_of(due_at) or ''
  redis.call('EXISTS', buckets, due_prefix .. minute, due_prefix .. '@' .. queue)
end

-- Take a member out of the index, whether it waits for its time or for room in its queue.
local function forget_due(buckets, due_prefix, due_at, queue, member)
  remove_due(buckets, due_prefix, bucket_of(due_at), { member })
  remove_due(buckets, due_prefix, '@' .. queue, { member })
end

-- Whether a member waits for room already: an earlier commit moved it there, and its reply was lost. `waiting` remembers
-- which buckets there are; the one that is being fired stands in it as false.
local function is_waiting(waiting, due_prefix, bucket, member)
  if waiting[bucket] == nil then
    waiting[bucket] = redis.call('EXISTS', due_prefix .. bucket) == 1
  end
  return waiting[bucket] and redis.call('ZSCORE', due_prefix .. bucket, member)
end

-- Moves out of one bucket are gathered and made at the end: one ZREM, and one ZADD for each bucket that receives.
local function new_moves(from)
  return { from = from, leaving = {}, coming = {} }
end

local function move(moves, member, to, due_at)
  if to ~= moves.from then
    moves.leaving[#moves.leaving + 1] = member
  end
  if to ~= '' then
    local coming = moves.coming[to] or {}
    coming[#coming + 1] = due_at
    coming[#coming + 1] = member
    moves.coming[to] = coming
  end
end

local function make_moves(moves, buckets, due_prefix)
  for bucket, scored_members in pairs(moves.coming) do
    add_due(buckets, due_prefix, bucket, scored_members)
  end
  remove_due(buckets, due_prefix, moves.from, moves.leaving)
end
