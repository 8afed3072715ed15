-- Have a dependent job wait anew for one time, because something above it runs again: what is not run again counts as heard.
-- Safe because: a time that is live is left alone, and what it waits for is replaced in one step.
-- KEYS: job arrivals awaiting
-- ARGV: id time attempt now heard...
--       attempt is the number of its next one; heard is upstream, `+` or `-`, outcome and result of each that is not run again
-- Reply: OK
-- Error: NOT_FOUND WRONG_STATE
local job = KEYS[1]
local arrivals = KEYS[2]
local awaiting = KEYS[3]
local id = ARGV[1]
local time = ARGV[2]
local attempt = ARGV[3]
local now = ARGV[4]
local heard = 5

if redis.call('HEXISTS', job, 'upstreams') == 0 then
  return redis.error_reply('NOT_FOUND there is no job ' .. id .. ' that depends on others')
end
if redis.call('HEXISTS', job, 'x:' .. time) == 1 then
  return redis.error_reply('WRONG_STATE execution ' .. id .. '@' .. time .. ' is live; cancel it, or wait for its end')
end
redis.call('EXISTS', arrivals, awaiting)

redis.call('DEL', arrivals)
local count = { ['+'] = 0, ['-'] = 0 }
for n = heard, #ARGV, 4 do
  local upstream, sign, outcome, result = unpack(ARGV, n, n + 3)
  count[sign] = count[sign] + 1
  redis.call('HSET', arrivals, upstream, sign .. outcome .. ' ' .. result)
end
redis.call('HSET', arrivals, '@met', count['+'], '@missed', count['-'], '@attempt', attempt)
redis.call('ZADD', awaiting, now, id .. '@' .. time)
return redis.status_reply('OK')
