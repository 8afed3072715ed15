-- Live executions. A job's hash has a field for each, `x:<nominal>`:
--   ready:<attempt>:<entry id>     in a ready stream, waiting or with a consumer
--   due:<attempt>:<due at>         in the due index: a retry, or waiting for room
--   gated:<attempt>:<until>        waits until then for upstream jobs; in the due index for when that is too late
--   async:<attempt>:<lapse at>     its target goes on by itself; in the due index for when its silence counts as failure
-- Behind that may stand `:<since>`, when the first attempt began and, after a dot, how many attempts the retry policy is not
-- to count; and `;<lanes>`, the gates that it came through (lib/gates). `live` counts the executions, without those that a
-- backfill started: these have a field `b:<nominal>` too, and are counted in `backfill_live`.

local function split_execution_id(execution_id)
  local at = string.find(execution_id, '@', 1, true)
  return string.sub(execution_id, 1, at - 1), string.sub(execution_id, at + 1)
end

-- Return where, attempt, entry id or time, since and lanes of what a field `x:…` holds; nil for none.
local function read_place(field)
  return string.match(field or '', '^(%a+):(%d+):([%d-]+):?([^;]*);?(.*)$')
end

local function place_of(where, attempt, at, since, lanes)
  local place = where .. ':' .. attempt .. ':' .. at
  if since and since ~= '' then
    place = place .. ':' .. since
  end
  return lanes and lanes ~= '' and place .. ';' .. lanes or place
end

-- Whether a field says that this attempt is in the ready stream as this entry.
local function is_offered(field, attempt, entry)
  if not field then
    return false
  end
  local plain = 'ready:' .. attempt .. ':' .. entry
  return field == plain or string.find(field, '^[:;]', #plain + 1) and string.sub(field, 1, #plain) == plain
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

local function add_field(fields, name, value)
  if value and value ~= '' then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end

-- Put an attempt into a ready stream; return what its field then holds. An entry carries all that a consumer needs, and no
-- field for nothing: expires_at, retry and those behind may be '' or nil. `lapsed` says that this attempt has waited in vain,
-- for its target (async) or for upstream jobs (gated): a worker is to end it, not to start it. `upstream` is what upstream
-- jobs gave.
local function offer(ready, execution_id, attempt, due_at, expires_at, target, payload, retry, since, lanes, lapsed, upstream)
  local more = {}
  add_field(more, 'expires_at', expires_at)
  add_field(more, 'retry', retry)
  add_field(more, 'since', since)
  add_field(more, 'lapsed', lapsed)
  add_field(more, 'upstream', upstream)
  local entry = redis.call('XADD', ready, '*', 'execution_id', execution_id, 'attempt', attempt, 'due_at', due_at,
    'target', target, 'payload', payload, unpack(more))
  return place_of('ready', attempt, entry, since, lanes)
end

-- The event of an attempt that went into a ready stream, and the part of it behind the execution.
local function offered_event_end(attempt, due_at, queue)
  return '",' .. attempt .. ',' .. due_at .. ',"' .. queue .. '"]'
end

local function offered_event(execution_id, attempt, due_at, queue)
  return '["fired","' .. execution_id .. offered_event_end(attempt, due_at, queue)
end

-- The live executions of a job: a list of {nominal time, where, attempt, entry id or time, since, lanes}, and in field
-- `is_backfilled` whether a backfill started it.
local function read_live(key)
  local live, backfilled, fields = {}, {}, redis.call('HGETALL', key)
  for n = 1, #fields, 2 do
    local kind, nominal_at = string.match(fields[n], '^([xb]):(%d+)$')
    if kind == 'x' then
      live[#live + 1] = { nominal_at, read_place(fields[n + 1]) }
    elseif kind == 'b' then
      backfilled[nominal_at] = true
    end
  end
  for _, execution in ipairs(live) do
    execution.is_backfilled = backfilled[execution[1]]
  end
  return live
end
