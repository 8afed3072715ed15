-- Note which jobs a job depends on, unless that closes a circle.
-- Safe because: the whole graph is one hash, so whoever would close a circle sees what the others have noted before; and an
-- edge is replaced only while it is the one that was read.
-- KEYS: graph
-- ARGV: id known match upstreams...
--       known is the job's field as it was read, '' for none; match is same_time or latest; no upstreams: the job depends on
--       none any more
-- Reply: OK
-- Error: CONFLICT CYCLE BAD_INPUT
local graph = KEYS[1]
local id = ARGV[1]
local known = ARGV[2]
local match = ARGV[3]
local upstreams = 4
local MOST_ANCESTORS = 10000

if (redis.call('HGET', graph, id) or '') ~= known then
  return redis.error_reply('CONFLICT what job ' .. id .. ' depends on has changed since it was read; read it again')
end
-- Upwards, level by level; `below` remembers the way back to the job.
local below, rows = { [id] = false }, {}
for n = upstreams, #ARGV do
  rows[#rows + 1] = { ARGV[n], id }
end
local place = 1
while rows[place] do
  local job, from = rows[place][1], rows[place][2]
  if job == id then
    local circle = { id }
    while from do
      table.insert(circle, 1, from)
      from = below[from]
    end
    return redis.error_reply('CYCLE ' .. table.concat(circle, ' depends on '))
  end
  if below[job] == nil then
    below[job] = from
    for up in string.gmatch(string.match(redis.call('HGET', graph, job) or '', '^%S* ?(.*)$'), '%S+') do
      rows[#rows + 1] = { up, job }
    end
  end
  if #rows > MOST_ANCESTORS then
    return redis.error_reply('BAD_INPUT job ' .. id .. ' would have more than ' .. MOST_ANCESTORS .. ' dependencies above it')
  end
  place = place + 1
end

if #ARGV < upstreams then
  redis.call('HDEL', graph, id)
else
  redis.call('HSET', graph, id, match .. ' ' .. table.concat(ARGV, ' ', upstreams))
end
return redis.status_reply('OK')
