-- Live executions. A job's hash has a field for each: `x:<nominal>` holds `ready:<attempt>:<entry id>` while the attempt is
-- in a ready stream and `due:<attempt>:<due at>` while it is in the due index; `live` counts them.

local function split_execution_id(execution_id)
  local at = string.find(execution_id, '@', 1, true)
  return string.sub(execution_id, 1, at - 1), string.sub(execution_id, at + 1)
end

-- Take one place in a ready stream if there is one. `room` remembers the places left while the script runs.
local function take_room(room, ready, max_ready)
  room[ready] = (room[ready] or max_ready - redis.call('XLEN', ready)) - 1
  return room[ready] >= 0
end

-- Put an attempt into a ready stream; return what its field then holds. An entry carries all that a consumer needs.
local function offer(ready, execution_id, attempt, due_at, target, payload, retry)
  local entry = redis.call('XADD', ready, '*', 'execution_id', execution_id, 'attempt', attempt, 'due_at', due_at,
    'target', target, 'payload', payload, 'retry', retry)
  return 'ready:' .. attempt .. ':' .. entry
end

-- The event of an attempt that went into a ready stream.
local function offered_event(execution_id, attempt, due_at, queue)
  return '["fired","' .. execution_id .. '",' .. attempt .. ',' .. due_at .. ',"' .. queue .. '"]'
end
