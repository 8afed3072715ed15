-- Remove consumers of a ready stream that hold nothing: a group remembers every name it ever saw.
-- Safe because: removing a consumer drops what it holds, and one that holds anything is left alone, in the same script.
-- KEYS: ready
-- ARGV: idle_ms only
--       a consumer is removed when it was idle for idle_ms; `only` is the one consumer to look at, or '' for all
-- Reply: how many were removed
-- Error: none
-- Flags: allow-oom

local ready = KEYS[1]
local idle_ms = tonumber(ARGV[1])
local only = ARGV[2]

if redis.call('EXISTS', ready) == 0 then
  return 0
end
local leaving = {}
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', ready, 'workers')) do
  local consumer = {}
  for n = 1, #flat, 2 do
    consumer[flat[n]] = flat[n + 1]
  end
  if consumer.pending == 0 and consumer.idle >= idle_ms and (only == '' or only == consumer.name) then
    leaving[#leaving + 1] = consumer.name
  end
end

for _, name in ipairs(leaving) do
  redis.call('XGROUP', 'DELCONSUMER', ready, 'workers', name)
end
return #leaving
