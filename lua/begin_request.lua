-- Begin a request that must not be carried out twice, or learn what became of it.
-- Safe because: it looks and writes in one step; a request that is being carried out is taken over only when its lease is over.
-- KEYS: request
-- ARGV: fingerprint nonce now lease_until keep_ms
--       `nonce` is who carries it out, until `lease_until`; to ask again with the same one goes on
-- Reply: {'begun'}, {'again'} after one that was begun and may have been carried out, {'pending'}, {'conflict'} for another
--       fingerprint, or {'answered', answer}
-- Error: none
local request = KEYS[1]
local fingerprint = ARGV[1]
local nonce = ARGV[2]
local now = tonumber(ARGV[3])
local lease_until = ARGV[4]
local keep_ms = ARGV[5]

local known = redis.call('HMGET', request, 'fingerprint', 'nonce', 'until', 'answer')
if known[1] and known[1] ~= fingerprint then
  return { 'conflict' }
elseif known[4] then
  return { 'answered', known[4] }
elseif known[1] and known[2] ~= nonce and now < tonumber(known[3]) then
  return { 'pending' }
end
redis.call('HSET', request, 'fingerprint', fingerprint, 'nonce', nonce, 'until', lease_until)
redis.call('PEXPIRE', request, keep_ms)
return { known[1] and known[2] ~= nonce and 'again' or 'begun' }
