-- The due index: buckets of a minute each, and `buckets` to find the oldest. What waits for something else than its time is
-- in a bucket whose name begins with `@`: `@<stream>` for room in a ready stream, `@<lane>` for a permit (lib/gates). Hash
-- `due:@` has the bucket of each member that waits for a permit: a job may have other lanes by the time it leaves.

local BUCKET_MS = 60000

local function bucket_of(due_at)
  return string.format('%.0f', math.floor(tonumber(due_at) / BUCKET_MS))
end

local function is_lane(bucket)
  return string.find(bucket, '/', 1, true)
end

local function add_due(buckets, due_prefix, bucket, scored_members)
  redis.call('ZADD', due_prefix .. bucket, unpack(scored_members))
  redis.call('ZADD', buckets, tonumber(bucket) and bucket or '+inf', bucket)
  if is_lane(bucket) then
    for n = 2, #scored_members, 2 do
      redis.call('HSET', due_prefix .. '@', scored_members[n], bucket)
    end
  end
end

local function remove_due(buckets, due_prefix, bucket, members)
  if #members > 0 and redis.call('ZREM', due_prefix .. bucket, unpack(members)) > 0 and is_lane(bucket) then
    redis.call('HDEL', due_prefix .. '@', unpack(members))
  end
  if redis.call('EXISTS', due_prefix .. bucket) == 0 then
    redis.call('ZREM', buckets, bucket)
  end
end

-- Touch what `forget_due` and `add_due` may write: a slot that is moving aborts the script here, before any write.
local function touch_due(buckets, due_prefix, due_at, queue, member)
  local minute = due_at ~= '' and bucket_of(due_at) or ''
  local lane = member and redis.call('HGET', due_prefix .. '@', member) or '@'
  redis.call('EXISTS', buckets, due_prefix .. minute, due_prefix .. '@' .. queue, due_prefix .. lane)
end

-- Take a member out of the index, whether it waits for its time, for room in its queue, or for a permit.
local function forget_due(buckets, due_prefix, due_at, queue, member)
  local lane = redis.call('HGET', due_prefix .. '@', member)
  remove_due(buckets, due_prefix, bucket_of(due_at), { member })
  remove_due(buckets, due_prefix, '@' .. queue, { member })
  if lane then
    remove_due(buckets, due_prefix, lane, { member })
  end
end

-- Whether there is a bucket of what waits; bucket `@` stands for all lanes. `waiting` remembers it for the script; the bucket
-- that is being fired stands in it as false.
local function is_waiting(waiting, due_prefix, bucket)
  if waiting[bucket] == nil then
    waiting[bucket] = redis.call('EXISTS', due_prefix .. bucket) == 1
  end
  return waiting[bucket]
end

-- The other `@` bucket in which a member waits already, if there is one: an earlier commit moved it there, and its reply was
-- lost.
local function waits_in(waiting, due_prefix, bucket, member)
  if is_waiting(waiting, due_prefix, bucket) and redis.call('ZSCORE', due_prefix .. bucket, member) then
    return bucket
  end
  local lane = is_waiting(waiting, due_prefix, '@') and redis.call('HGET', due_prefix .. '@', member)
  return lane and waiting[lane] ~= false and lane or nil
end

-- A member that its job does not know is left over, and is to go, unless it has another time by now: nil then.
local function left_over(bucket, member, due_at)
  return tonumber(redis.call('ZSCORE', bucket, member)) == tonumber(due_at) and member or nil
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

-- What leaves goes first: a lane's members are remembered by where they come to.
local function make_moves(moves, buckets, due_prefix)
  remove_due(buckets, due_prefix, moves.from, moves.leaving)
  for bucket, scored_members in pairs(moves.coming) do
    add_due(buckets, due_prefix, bucket, scored_members)
  end
end
