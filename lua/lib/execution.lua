-- Live executions. A job's hash has a field for each: `x:<nominal>` holds `ready:<attempt>:<entry id>` while the attempt is
-- in a ready stream and `due:<attempt>:<due at>` while it is in the due index. `live` counts them, without those that a
-- backfill started: these have a field `b:<nominal>` too, and are counted in `backfill_live`.

local function split_execution_id(execution_id)
  local at = string.find(execution_id, '@', 1, true)
  return string.sub(execution_id, 1, at - 1), string.sub(execution_id, at + 1)
end

-- Take one place in a ready stream if there is one. `room` remembers the places left while the script runs.
local function take_room(room, ready, max_ready)
  room[ready] = (room[ready] or max_ready - redis.call('XLEN', ready)) - 1
  return room[ready] >= 0
end

-- When an execution that has not started is dropped, '' for never: only a first attempt can be late in this sense.
local function expiry(nominal_at, attempt, expires_after_ms)
  if attempt ~= '1' or not expires_after_ms or expires_after_ms == '' then
    return ''
  end
  return string.format('%.0f', tonumber(nominal_at) + tonumber(expires_after_ms))
end

-- Put an attempt into a ready stream; return what its field then holds. An entry carries all that a consumer needs.
local function offer(ready, execution_id, attempt, due_at, expires_at, target, payload, retry)
  local entry = redis.call('XADD', ready, '*', 'execution_id', execution_id, 'attempt', attempt, 'due_at', due_at,
    'expires_at', expires_at, 'target', target, 'payload', payload, 'retry', retry)
  return 'ready:' .. attempt .. ':' .. entry
end

-- The event of an attempt that went into a ready stream.
local function offered_event(execution_id, attempt, due_at, queue)
  return '["fired","' .. execution_id .. '",' .. attempt .. ',' .. due_at .. ',"' .. queue .. '"]'
end

-- The live executions of a job: a list of {nominal time, 'ready' or 'due', attempt, entry id or due time, and whether a
-- backfill started it}.
local function read_live(key)
  local live, backfilled, fields = {}, {}, redis.call('HGETALL', key)
  for n = 1, #fields, 2 do
    local kind, nominal_at = string.match(fields[n], '^([xb]):(%d+)$')
    if kind == 'x' then
      live[#live + 1] = { nominal_at, string.match(fields[n + 1], '^(%a+):(%d+):([%d-]+)$') }
    elseif kind == 'b' then
      backfilled[nominal_at] = true
    end
  end
  for _, execution in ipairs(live) do
    execution[5] = backfilled[execution[1]]
  end
  return live
end
