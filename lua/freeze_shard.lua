-- Stop a shard: scripts refuse from here on, and its ready streams hand nothing out any more.
-- Safe because: a group that stands at the last id there can be finds nothing new, and what a consumer holds stays its own. Where
-- each group stood is noted once, so that sent again, with another phase or more streams, it freezes nothing twice.
-- KEYS: frozen
-- ARGV: phase ready_prefix streams...
--       phase is draining (what runs may come to its end) or frozen
-- Reply: how many streams were stopped now
-- Error: none
-- Flags: allow-oom
--@include lib/delivery
local frozen = KEYS[1]
local phase = ARGV[1]
local ready_prefix = ARGV[2]
local streams = 3
local LAST_ID = '18446744073709551615-18446744073709551614'

local found = {}
for n = streams, #ARGV do
  local ready = ready_prefix .. ARGV[n]
  if redis.call('EXISTS', ready) == 1 and redis.call('HEXISTS', frozen, 'group:' .. ARGV[n]) == 0 then
    found[#found + 1] = { ready, ARGV[n], has_group(ready) and redis.call('XINFO', 'GROUPS', ready) or {} }
  end
end

redis.call('HSET', frozen, 'phase', phase)
for _, row in ipairs(found) do
  local ready, stream, groups = unpack(row, 1, 3)
  local stood_at = '0-0'
  for _, flat in ipairs(groups) do
    for n = 1, #flat, 2 do
      if flat[2] == 'workers' and flat[n] == 'last-delivered-id' then
        stood_at = flat[n + 1]
      end
    end
  end
  redis.call('HSET', frozen, 'group:' .. stream, stood_at)
  redis.call('XGROUP', unpack(#groups > 0 and { 'SETID', ready, 'workers', LAST_ID } or { 'CREATE', ready, 'workers', LAST_ID }))
end
return #found
