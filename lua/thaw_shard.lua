-- Let a shard go on that was frozen: its ready streams hand out again from where they stood.
-- Safe because: the note of where the groups stood goes in the same step, so that sent again it moves nothing.
-- KEYS: frozen
-- ARGV: ready_prefix
-- Reply: how many streams go on
-- Error: none
-- Flags: allow-oom
--@include lib/delivery
local frozen = KEYS[1]
local ready_prefix = ARGV[1]

local fields, streams = redis.call('HGETALL', frozen), {}
for n = 1, #fields, 2 do
  local stream = string.match(fields[n], '^group:(.*)$')
  if stream and has_group(ready_prefix .. stream) then
    streams[#streams + 1] = { ready_prefix .. stream, fields[n + 1] }
  end
end

redis.call('DEL', frozen)
for _, row in ipairs(streams) do
  redis.call('XGROUP', 'SETID', row[1], 'workers', row[2])
end
return #streams
