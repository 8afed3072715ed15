-- Keep the answer of a request that was begun, or forget the request, which changed nothing.
-- Safe because: only who carries it out ends it.
-- KEYS: request
-- ARGV: nonce answer keep_ms
--       answer '' forgets it
-- Reply: 1 or 0: ended, or somebody else carries it out by now
-- Error: none
local request = KEYS[1]
local nonce = ARGV[1]
local answer = ARGV[2]
local keep_ms = ARGV[3]

local known = redis.call('HMGET', request, 'nonce', 'answer')
if known[1] ~= nonce or known[2] then
  return 0
end
if answer == '' then
  redis.call('DEL', request)
else
  redis.call('HSET', request, 'answer', answer)
  redis.call('PEXPIRE', request, keep_ms)
end
return 1
