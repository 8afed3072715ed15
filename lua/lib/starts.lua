-- A job that fires at each start of the deployment waits in the due index past all times of the clock (engine/plan/starts.py).

local PAST_ALL_TIMES = 1000000000000000

-- The time by the clock at which a job is due that is in the index under `known_at`, and fires for `nominal_at`.
local function clock_time_of(known_at, nominal_at)
  return tonumber(known_at) < PAST_ALL_TIMES and known_at or nominal_at
end
