-- Give a shard's lease back, so that another scheduler takes it at once instead of after the TTL.
-- Safe because: only the holder's own lease is deleted; the token stays, so what the holder still sends is judged as before.
-- KEYS: lease
-- ARGV: holder
-- Reply: 1 if it was the caller's, else 0
-- Error: none
-- Flags: allow-oom

local lease = KEYS[1]
local holder = ARGV[1]

if redis.call('GET', lease) ~= holder then
  return 0
end
return redis.call('DEL', lease)
