-- The jobs of a group and those with a tag, listed as `jobs` lists all: `<jobs>:group:<name>` and `<jobs>:tag:<name>` hold ids
-- with score 0. Hash `<jobs>:groups` has the bytes of each group's payloads, and zset `<jobs>:group_names` the names in their
-- order; neither has a group without jobs. All these keys begin with that of `jobs`, so that who may take a job off that list
-- can take it off these.
-- `group` and `tags` are as the job's hash has them, or '' for none. A job without either costs no command here.

local function is_given(text)
  return text and text ~= ''
end

-- Touch what the others write.
local function touch_index(jobs, group, tags)
  if is_given(group) then
    redis.call('EXISTS', jobs .. ':groups', jobs .. ':group_names', jobs .. ':group:' .. group)
  end
  for tag in string.gmatch(tags or '', '%S+') do
    redis.call('EXISTS', jobs .. ':tag:' .. tag)
  end
end

local function add_to_index(jobs, id, group, tags, payload_bytes)
  if is_given(group) then
    redis.call('ZADD', jobs .. ':group:' .. group, 0, id)
    if redis.call('HINCRBY', jobs .. ':groups', group, payload_bytes) == payload_bytes then
      redis.call('ZADD', jobs .. ':group_names', 0, group)
    end
  end
  for tag in string.gmatch(tags or '', '%S+') do
    redis.call('ZADD', jobs .. ':tag:' .. tag, 0, id)
  end
end

-- While the job's hash, `key`, still has the payload that was added.
local function drop_from_index(jobs, key, id, group, tags)
  if is_given(group) and redis.call('ZREM', jobs .. ':group:' .. group, id) == 1 then
    if redis.call('EXISTS', jobs .. ':group:' .. group) == 1 then
      redis.call('HINCRBY', jobs .. ':groups', group, -redis.call('HSTRLEN', key, 'payload'))
    else
      redis.call('HDEL', jobs .. ':groups', group)
      redis.call('ZREM', jobs .. ':group_names', group)
    end
  end
  for tag in string.gmatch(tags or '', '%S+') do
    redis.call('ZREM', jobs .. ':tag:' .. tag, id)
  end
end

-- Touch what `forget_job` writes, but for the job's own keys and the list of all.
local function touch_forgotten(jobs, key)
  touch_index(jobs, unpack(redis.call('HMGET', key, 'group', 'tags'), 1, 2))
end

-- Take a job off all lists, with its hash and its history; say so in `events`.
local function forget_job(jobs, key, runs, id, events)
  local group, tags = unpack(redis.call('HMGET', key, 'group', 'tags'), 1, 2)
  drop_from_index(jobs, key, id, group, tags)
  redis.call('DEL', key, runs)
  redis.call('ZREM', jobs, id)
  events[#events + 1] = '["deleted","' .. id .. '"]'
end
