-- The loader puts this, in place of lib/frozen, before the scripts by which work that has begun comes to its end: they go on
-- while a deployment drains, and stop when it is about to be read.
local shard = string.match(KEYS[1], '^[^{]*{[^}]*}:')
local phase = shard and redis.call('HGET', shard .. 'frozen', 'phase')
if phase and phase ~= 'draining' then
  return redis.error_reply('FROZEN this deployment is moving to another server, or has moved; nothing was changed')
end
