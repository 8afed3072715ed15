-- Turn away a scheduler whose lease is not the newest that was granted for the shard.
-- Both are compared: after a failover rewound the hash, a token alone might be granted twice.
-- Error: FENCED

local function refuse_old_grant(fence, token, holder)
  local newest = redis.call('HMGET', fence, 'token', 'holder')
  if newest[1] ~= token or newest[2] ~= holder then
    return redis.error_reply('FENCED a newer lease was granted for this shard')
  end
end
