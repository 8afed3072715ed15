-- The loader puts this before every script that begins work or changes a job: nothing of that happens in a deployment that
-- is moving to another server, or has moved. Hash `frozen` beside the shard's other keys says so (freeze_shard). It is looked
-- up by the tag of the first key, since it is no business of any one script; keys of no shard are for the API to guard.
local shard = string.match(KEYS[1], '^[^{]*{[^}]*}:')
if shard and redis.call('HEXISTS', shard .. 'frozen', 'phase') == 1 then
  return redis.error_reply('FROZEN this deployment is moving to another server, or has moved; nothing was changed')
end
