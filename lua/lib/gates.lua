-- Gates: they keep a limited execution out of its ready stream until there is a permit for it. It waits in the due index
-- meanwhile, in a bucket of its lane, where it holds up nobody else. A lane is what is limited: `q/<queue>`, `h/<host>`, or
-- `g/<queue>/<group>`. Hash `gates` of a shard, absent while nothing is limited (engine/gates.py decides what is in it):
--   slots:<lane>   how many may still be live here beside those that are (limit of concurrency)
--   tokens:<lane>  how many may still be let in here, ever (limit of rate, share of a group)
--   live:<lane>    how many were let in here and have not ended
--   fair:<queue>   the queue is shared fairly: each group is a lane, with so many tokens while it has no field of its own
--   full:<lane>    in the first shard: when the bucket of a rate will be full, in ms; no script looks at it
--   token          number of the grant that came last: the fencing token of a lease, and three digits
--@include lib/due
--@include lib/execution

-- The gates of a shard as numbers by field, nil while there are none.
local function read_gates(key)
  local fields = redis.call('HGETALL', key)
  if #fields == 0 then
    return nil
  end
  local gates = { changed = {} }
  for n = 1, #fields, 2 do
    gates[fields[n]] = tonumber(fields[n + 1])
  end
  return gates
end

-- Permits that are left in a lane for concurrency and for rate; nil where it is not limited.
local function permits(gates, lane)
  local queue = string.match(lane, '^g/([^/]*)/')
  return gates['slots:' .. lane], gates['tokens:' .. lane] or queue and gates['fair:' .. queue]
end

-- The lanes of a job's executions that are limited.
local function lanes_of(gates, stream, target, group)
  local queue, lanes = string.match(stream, '^[^:]*'), {}
  local host = string.match(target, '^{"type":"http","url":"https?://([^/?#"]*)')
  local known = { 'q/' .. queue, host and 'h/' .. string.lower(host) }
  known[#known + 1] = gates['fair:' .. queue] and 'g/' .. queue .. '/' .. (group or '') or nil
  for _, lane in ipairs(known) do
    local slots, tokens = permits(gates, lane)
    if slots or tokens then
      lanes[#lanes + 1] = lane
    end
  end
  return lanes
end

-- Count one more, or one less, of what is live behind a lane's gate.
local function count_in(gates, lane, by)
  local slots = permits(gates, lane)
  gates['live:' .. lane] = (gates['live:' .. lane] or 0) + by
  gates['slots:' .. lane] = slots and slots - by
  gates.changed[lane] = true
end

-- Find an execution a place: return nil and the lanes that it came through, or the bucket in which it has to wait. `at` has
-- ready_prefix, max_ready, `gates` as read_gates gave them, and `room`. `freed` is what it ends, and has: by lane, if any.
local function let_in(at, stream, target, group, freed)
  local gates, ready = at.gates, at.ready_prefix .. stream
  if not gates then
    return not take_room(at.room, ready, at.max_ready) and '@' .. stream or nil, ''
  end
  local lanes = lanes_of(gates, stream, target, group)
  for _, lane in ipairs(lanes) do
    local slots, tokens = permits(gates, lane)
    if slots and slots + (freed and freed[lane] or 0) < 1 or tokens and tokens < 1 then
      return '@' .. lane .. (string.match(stream, ':.*') or '')
    end
  end
  if not take_room(at.room, ready, at.max_ready) then
    return '@' .. stream
  end
  for _, lane in ipairs(lanes) do
    local _, tokens = permits(gates, lane)
    gates['tokens:' .. lane] = tokens and tokens - 1
    count_in(gates, lane, 1)
  end
  return nil, table.concat(lanes, ',')
end

-- Give back what an execution holds that ended or left its ready stream. Of a lane whose limit was lifted it holds nothing.
local function let_out(gates, lanes)
  for lane in string.gmatch(gates and lanes or '', '[^,]+') do
    if (gates['live:' .. lane] or 0) > 0 then
      count_in(gates, lane, -1)
    end
  end
end

local function save_gates(key, gates)
  for lane in pairs(gates and gates.changed or {}) do
    for _, name in ipairs({ 'slots:', 'tokens:', 'live:' }) do
      local count = gates[name .. lane]
      if count then
        redis.call('HSET', key, name .. lane, string.format('%.0f', count))
      end
    end
    if gates['live:' .. lane] == 0 then
      redis.call('HDEL', key, 'live:' .. lane)
    end
  end
end
