-- Deliveries. The pending entry is the lease of an execution; entry, consumer and delivery count are its fencing token.

-- Whether a stream was ever read. Asking for its pending entries is an error until then.
local function has_group(ready)
  return redis.call('EXISTS', ready) == 1 and #redis.call('XINFO', 'GROUPS', ready) > 0
end

-- Whether this consumer still holds this delivery of an entry.
local function holds(ready, entry, consumer, deliveries)
  local pending = redis.call('XPENDING', ready, 'workers', entry, entry, 1)[1]
  return pending and pending[2] == consumer and pending[4] == tonumber(deliveries)
end

-- An entry leaves its stream here and nowhere else: acknowledged and deleted, in the script that records the outcome.
local function drop_entry(ready, entry)
  redis.call('XACK', ready, 'workers', entry)
  redis.call('XDEL', ready, entry)
end

local function end_execution(job, nominal_at)
  redis.call('HDEL', job, 'x:' .. nominal_at)
  redis.call('HINCRBY', job, 'live', -1)
end
