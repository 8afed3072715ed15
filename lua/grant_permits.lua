-- Change the gates of a shard: give permits, take them back, limit a lane, or lift its limit.
-- Safe because: one process grants, under the fencing token of its lease. What counts is live + slots of a lane, over all
-- shards: only a grant changes that sum, whatever comes in or ends meanwhile. Slots below zero are a debt that ends pay.
-- KEYS: gates
-- ARGV: token changes...
--       a change is a field and: `+n` or `-n` to add to it, `n` to set it unless it is there, '' to remove it
-- Reply: OK
-- Error: FENCED
local gates = KEYS[1]
local token = ARGV[1]
local changes = 2

if tonumber(redis.call('HGET', gates, 'token') or 0) > tonumber(token) then
  return redis.error_reply('FENCED another scheduler grants permits now')
end

for n = changes, #ARGV, 2 do
  local field, change = ARGV[n], ARGV[n + 1]
  if change == '' then
    redis.call('HDEL', gates, field)
  elseif string.find(change, '^[+-]') then
    redis.call('HINCRBY', gates, field, tonumber(change))
  else
    redis.call('HSETNX', gates, field, change)
  end
end
redis.call('HDEL', gates, 'token')
if redis.call('EXISTS', gates) == 1 then
  redis.call('HSET', gates, 'token', token)
end
return redis.status_reply('OK')
