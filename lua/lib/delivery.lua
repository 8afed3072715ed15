-- Deliveries. The pending entry is the lease of an execution; entry, consumer and delivery count are its fencing token.
--@include lib/head

-- Whether a stream has its consumer group: before the first read it has none, and XPENDING would raise.
local function has_group(ready)
  local groups = redis.call('EXISTS', ready) == 1 and redis.call('XINFO', 'GROUPS', ready) or {}
  for _, group in ipairs(groups) do
    if group[2] == 'workers' then
      return true
    end
  end
  return false
end

-- Whether this consumer still holds this delivery of an entry.
local function holds(ready, entry, consumer, deliveries)
  local pending = redis.call('XPENDING', ready, 'workers', entry, entry, 1)[1]
  return pending and pending[2] == consumer and pending[4] == tonumber(deliveries)
end

-- The deliveries of what this consumer holds from one entry to another, by entry, `most` at the most.
local function held_between(ready, consumer, first, last, most)
  local held = {}
  for _, pending in ipairs(redis.call('XPENDING', ready, 'workers', first, last, most, consumer)) do
    held[pending[1]] = pending[4]
  end
  return held
end

-- The fields of an entry by name, nil if it is gone; and as they came.
local function read_entry(ready, entry)
  local found = redis.call('XRANGE', ready, entry, entry)[1]
  if not found then
    return nil
  end
  local fields = {}
  for n = 1, #found[2], 2 do
    fields[found[2][n]] = found[2][n + 1]
  end
  return fields, found[2]
end

-- Whether an entry is what its holder says that it is: this attempt of this execution.
local function is_entry_of(ready, entry, execution_id, attempt)
  local fields = read_entry(ready, entry) or {}
  return fields.execution_id == execution_id and fields.attempt == attempt
end

-- Whether the target of this attempt has promised to report its end.
local function is_promised(job, nominal_at, attempt)
  local where, number = string.match(redis.call('HGET', job, 'x:' .. nominal_at) or '', '^(%a+):(%d+):')
  return where == 'async' and number == attempt
end

-- Entries leave their stream here and nowhere else: acknowledged and deleted, in the script that records the outcome.
local function drop_entries(ready, entries)
  if #entries > 0 then
    redis.call('XACK', ready, 'workers', unpack(entries))
    redis.call('XDEL', ready, unpack(entries))
  end
end

local function drop_entry(ready, entry)
  drop_entries(ready, { entry })
end

-- Take an execution off the live ones. Returns whether the job's rules are to see its end: not if a backfill started it. `head`
-- is as count_live takes it.
local function end_execution(job, nominal_at, outcome, head)
  if redis.call('HDEL', job, 'x:' .. nominal_at, 'b:' .. nominal_at) == 2 then
    redis.call('HINCRBY', job, 'backfill_live', -1)
    redis.call('HINCRBY', job, 'backfill_' .. outcome, 1)
    return false
  end
  count_live(job, -1, head)
  return true
end
