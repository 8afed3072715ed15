-- Extend the leases of deliveries that are still running.
-- Safe because: only who holds a delivery extends it; XCLAIM alone would take it back from a new holder. JUSTID leaves the
-- delivery count alone, so the proof stays the same.
-- KEYS: ready
-- ARGV: consumer deliveries...
--       a delivery is entry_id deliveries
-- Reply: {1 or 0, …} for each: extended, or somebody else's by now
-- Error: none
-- Flags: allow-oom
--@include lib/delivery
local ready = KEYS[1]
local consumer = ARGV[1]
local deliveries = 2

local is_read = has_group(ready)
local reply = {}
for n = deliveries, #ARGV, 2 do
  reply[#reply + 1] = is_read and holds(ready, ARGV[n], consumer, ARGV[n + 1]) and 1 or 0
end

for n = deliveries, #ARGV, 2 do
  if reply[(n - deliveries) / 2 + 1] == 1 then
    redis.call('XCLAIM', ready, 'workers', consumer, 0, ARGV[n], 'JUSTID')
  end
end
return reply
