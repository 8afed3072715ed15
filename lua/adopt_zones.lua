-- Write down the editions of the zone database by which next times of a shard may have been worked out.
-- Safe because: only the holder of the lease writes, under its fencing token. One that is done again is added again, and its
-- jobs are looked at again, which changes nothing.
-- KEYS: fence zones
-- ARGV: token holder done edition
--       edition is added; done is one by which none is left any more, '' for none
-- Reply: all editions
-- Error: FENCED
--@include lib/fence
local fence = KEYS[1]
local zones = KEYS[2]
local token = ARGV[1]
local holder = ARGV[2]
local done = ARGV[3]
local edition = ARGV[4]

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end
redis.call('EXISTS', zones)

redis.call('SADD', zones, edition)
if done ~= '' then
  redis.call('SREM', zones, done)
end
return redis.call('SMEMBERS', zones)
