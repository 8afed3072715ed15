-- Arrivals: what a dependent job has heard of its upstream jobs. Hash `arrivals:<job>@<time>` for each time of which it may
-- hear more that counts, or `arrivals:<job>@latest`:
--   <upstream>   '+' or '-' (its condition is met, or is not), the outcome, a blank, and its result or ''
--   @met, @missed   how many of each
--   @open        how many outcomes may still change: all but succeeded, which nobody redrives
--   @state       fired, or blocked: told as `upstream_failed`; absent before
--   @attempt     the number of the attempt to make, if it is not the first
--   @version     of the job that these counts are for
-- Zset `awaiting` has the members `<job>@<time>` of all these, by when they last heard. What has heard nothing for KEPT_MS is
-- forgotten: a gate and a dead letter are over by then.
-- A job's field `upstreams` lists its upstream jobs, a blank between two, each behind the letter of its condition: s, it has
-- succeeded; f, it is dead; e, it has ended in any way.
local MEETS = { s = { succeeded = true }, f = { dead = true } }
local KEPT_MS = 60 * 86400000
local FORGET_MOST = 10

-- The letter of the condition on an upstream job, nil if it is none.
local function condition_of(upstreams, upstream)
  local list = ' ' .. upstreams .. ' '
  for _, letter in ipairs({ 's', 'f', 'e' }) do
    if string.find(list, ' ' .. letter .. upstream .. ' ', 1, true) then
      return letter
    end
  end
end

local function is_met(letter, outcome)
  return letter == 'e' or MEETS[letter][outcome] or false
end

local function count_upstreams(upstreams)
  local _, count = string.gsub(upstreams, '%S+', '')
  return count
end

-- Whether as many conditions are met as a job needs.
local function is_enough(join, met, upstreams)
  return join == 'any' and met > 0 or join ~= 'any' and met == count_upstreams(upstreams)
end

-- Count an arrival, or with -1 take it out of the counts.
local function count_in_arrival(heard, is_met, outcome, by)
  local name = is_met and 'met' or 'missed'
  heard[name] = heard[name] + by
  heard.open = heard.open + (outcome == 'succeeded' and 0 or by)
end

-- What was heard for a job as it is now: met, missed, open, state, attempt, is_new if nothing was. After an edit it is counted
-- anew: `changed` has the fields to write, `dropped` those of jobs that are no upstream jobs any more.
local function read_heard(arrivals, upstreams, version)
  local known = redis.call('HMGET', arrivals, '@version', '@met', '@missed', '@open', '@state', '@attempt')
  local heard = { met = tonumber(known[2] or 0), missed = tonumber(known[3] or 0), open = tonumber(known[4] or 0),
    state = known[5], attempt = known[6] or '1', is_new = not known[2], version = version or '1' }
  if heard.is_new or known[1] == heard.version then
    return heard
  end
  heard.met, heard.missed, heard.open, heard.changed, heard.dropped = 0, 0, 0, {}, {}
  local fields = redis.call('HGETALL', arrivals)
  for n = 1, #fields, 2 do
    local letter, outcome = condition_of(upstreams, fields[n]), string.match(fields[n + 1], '^[+-]([%a_]+) ')
    if outcome and letter then
      local met = is_met(letter, outcome)
      count_in_arrival(heard, met, outcome, 1)
      heard.changed[#heard.changed + 1] = { fields[n], (met and '+' or '-') .. string.sub(fields[n + 1], 2) }
    elseif outcome then
      heard.dropped[#heard.dropped + 1] = fields[n]
    end
  end
  return heard
end

-- Count one more arrival in `heard`, in place of what its upstream job had told before; return whether that had met its
-- condition.
local function count_arrival(heard, arrivals, upstream, letter, outcome)
  local known = redis.call('HGET', arrivals, upstream)
  local before = known and string.match(known, '^[+-]([%a_]+) ')
  if before then
    count_in_arrival(heard, is_met(letter, before), before, -1)
  end
  count_in_arrival(heard, is_met(letter, outcome), outcome, 1)
  return before and is_met(letter, before)
end

local function save_heard(arrivals, heard)
  for _, pair in ipairs(heard.changed or {}) do
    redis.call('HSET', arrivals, pair[1], pair[2])
  end
  for _, upstream in ipairs(heard.dropped or {}) do
    redis.call('HDEL', arrivals, upstream)
  end
  redis.call('HSET', arrivals, '@version', heard.version, '@met', heard.met, '@missed', heard.missed, '@open', heard.open)
end

-- Say that a time has fired, or forget it if nothing that may still be heard would count.
local function close_arrivals(arrivals, awaiting, awaited, heard, upstreams)
  if heard.met + heard.missed == count_upstreams(upstreams) and heard.open == 0 then
    redis.call('DEL', arrivals)
    redis.call('ZREM', awaiting, awaited)
  else
    redis.call('HSET', arrivals, '@state', 'fired')
  end
end

-- Of what has heard nothing for so long return some, and touch it.
local function find_forgotten(awaiting, arrivals_prefix, now)
  local found = redis.call('ZRANGE', awaiting, '-inf', string.format('%.0f', now - KEPT_MS), 'BYSCORE', 'LIMIT', 0, FORGET_MOST)
  for _, awaited in ipairs(found) do
    redis.call('EXISTS', arrivals_prefix .. awaited)
  end
  return found
end

-- Forget those of them that have heard nothing since either.
local function forget_arrivals(awaiting, arrivals_prefix, found, now)
  for _, awaited in ipairs(found) do
    if tonumber(redis.call('ZSCORE', awaiting, awaited) or now) <= now - KEPT_MS then
      redis.call('DEL', arrivals_prefix .. awaited)
      redis.call('ZREM', awaiting, awaited)
    end
  end
end

-- The results of all upstream jobs that gave one, as a JSON object; '' for none.
local function gather_results(arrivals)
  local fields, results = redis.call('HGETALL', arrivals), {}
  for n = 1, #fields, 2 do
    local result = string.match(fields[n + 1], '^[+-][%a_]+ (.+)$')
    if result then
      results[#results + 1] = '"' .. fields[n] .. '":' .. result
    end
  end
  return #results > 0 and '{' .. table.concat(results, ',') .. '}' or ''
end
