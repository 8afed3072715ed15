-- What a job's definition gives, in the order in which scripts get it. Some of it goes into words of the head, the rest into
-- fields of the same names; those behind `definition` stay out of the hash where they are ''.
--@include lib/head

local DEFINED = { 'queue', 'overlap', 'target', 'payload', 'retry', 'definition', 'rules', 'runs_left', 'expires_after_ms',
  'pause_after_failures', 'delete_after_completion', 'concurrency', 'group', 'upstreams', 'join', 'match', 'gate_ms', 'tags' }
local WORDS = { queue = true, overlap = true, retry = true, rules = true }
local UPSTREAMS = 14

-- The state of a job with this next time, unless it is paused: one that waits for upstream jobs needs no time to be active.
local function state_of(next_run_at, first)
  return next_run_at == '' and ARGV[first + UPSTREAMS - 1] == '' and 'completed' or 'active'
end

-- The head of a job whose definition stands in ARGV from `first` on.
local function define_head(first, state, plan, next_run_at, live)
  return { state = state, plan = plan, next_run_at = next_run_at, live = live, queue = ARGV[first], overlap = ARGV[first + 1],
    retry = ARGV[first + 4], rules = ARGV[first + 6] ~= '' }
end

-- The fields of a definition, each name before its value; and the names of those that are not asked for.
local function defined_fields(first)
  local fields, absent = {}, {}
  for place, name in ipairs(DEFINED) do
    local value = ARGV[first + place - 1]
    if value == '' and name ~= 'payload' and not WORDS[name] then
      absent[#absent + 1] = name
    elseif not WORDS[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  return fields, absent
end
