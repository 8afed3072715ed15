-- Name the executions at both ends of ready streams, without what else their entries hold: a payload may be large.
-- Safe because: it only reads.
-- KEYS: ready...
-- ARGV: count
--       how many from each end of each stream
-- Reply: {{execution id, …}, …}, a list a stream; what is at both ends is named once
-- Error: none
-- Flags: no-writes
local ready = 1
local count = tonumber(ARGV[1])

local found = {}
for n = ready, #KEYS do
  local names, last = {}, nil
  for _, entry in ipairs(redis.call('XRANGE', KEYS[n], '-', '+', 'COUNT', count)) do
    names[#names + 1] = entry[2][2]
    last = entry[1]
  end
  if #names == count then
    for _, entry in ipairs(redis.call('XREVRANGE', KEYS[n], '+', '(' .. last, 'COUNT', count)) do
      names[#names + 1] = entry[2][2]
    end
  end
  found[#found + 1] = names
end
return found
