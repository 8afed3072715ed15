-- The fields of a job's hash that its definition gives, in the order in which scripts get their values; those of `lib/rules`
-- come last and stay out of the hash where they are ''.

local DEFINED = { 'queue', 'overlap', 'target', 'payload', 'retry', 'definition', 'rules', 'runs_left', 'expires_after_ms',
  'pause_after_failures', 'delete_after_completion', 'concurrency', 'group', 'upstreams', 'join', 'match', 'gate_ms', 'tags' }
local REQUIRED = 6
local UPSTREAMS = 14

-- The state of a job with this next time, unless it is paused: one that waits for upstream jobs needs no time to be active.
local function state_of(next_run_at, first)
  return next_run_at == '' and ARGV[first + UPSTREAMS - 1] == '' and 'completed' or 'active'
end

-- Write the values that stand in ARGV from `first` on.
local function write_definition(key, first)
  local fields, absent = {}, {}
  for place, name in ipairs(DEFINED) do
    local value = ARGV[first + place - 1]
    if place <= REQUIRED or value ~= '' then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    else
      absent[#absent + 1] = name
    end
  end
  redis.call('HSET', key, unpack(fields))
  if #absent > 0 then
    redis.call('HDEL', key, unpack(absent))
  end
end
