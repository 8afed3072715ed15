-- Go on with a backfill: start its next nominal times while it has places, and end it when nothing is left of it.
-- What it starts is marked `b:<nominal>` in the job's hash and counts in `backfill_live`, not in `live`: neither overlap nor
-- the job's other rules see it.
-- Safe because: times are started only from the place that was read, and the place moves in the same script; a time that is
-- live, waits, or is still the schedule's is passed over.
-- KEYS: fence job jobs runs backfills dead ledger
-- ARGV: token holder id number now place following ready_prefix max_ready ledger_limit times...
--       number and place are those that were read; following is the place after all times, '' at the end; a time is
--       nominal_at and the attempt to make, '' to pass it over
-- Reply: how many were started
-- Error: FENCED
--@include lib/fence
--@include lib/backfill
--@include lib/execution
--@include lib/records
local fence = KEYS[1]
local job = KEYS[2]
local jobs = KEYS[3]
local runs = KEYS[4]
local backfills = KEYS[5]
local dead = KEYS[6]
local ledger = KEYS[7]
local token = ARGV[1]
local holder = ARGV[2]
local id = ARGV[3]
local number = ARGV[4]
local now = ARGV[5]
local place = ARGV[6]
local following = ARGV[7]
local ready_prefix = ARGV[8]
local max_ready = tonumber(ARGV[9])
local ledger_limit = tonumber(ARGV[10])
local times = 11

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end
redis.call('EXISTS', jobs, runs, backfills, dead, ledger)
local known = redis.call('HMGET', job, 'backfill_state', 'backfill_number', 'backfill_at', 'backfill_concurrency',
  'backfill_live', 'queue', 'next_run_at', 'queued')
local state, known_number, at, concurrency, backfill_live, queue, next_run_at, queued = unpack(known, 1, 8)
if state ~= 'running' and state ~= 'cancelling' then
  -- The job is gone, or the backfill has ended.
  redis.call('SREM', backfills, id)
  return 0
end
if known_number ~= number then
  return 0
end

local ready, room, starts, passed = ready_prefix .. queue, {}, {}, 0
local free = tonumber(concurrency) - tonumber(backfill_live)
if state == 'running' and at == place then
  at = following
  for n = times, #ARGV, 2 do
    local nominal_at, attempt = ARGV[n], ARGV[n + 1]
    if attempt ~= '' and not is_taken(job, nominal_at, next_run_at, queued) then
      if #starts >= free or not take_room(room, ready, max_ready) then
        at = nominal_at
        break
      end
      starts[#starts + 1] = { nominal_at, attempt }
    end
    passed = passed + 1
  end
end

local events, work = {}, #starts > 0 and redis.call('HMGET', job, 'target', 'payload', 'retry')
for _, start in ipairs(starts) do
  local nominal_at, attempt = unpack(start, 1, 2)
  local execution_id = id .. '@' .. nominal_at
  local where = offer(ready, execution_id, attempt, now, '', work[1], work[2], work[3])
  redis.call('HSET', job, 'x:' .. nominal_at, where, 'b:' .. nominal_at, 1)
  redis.call('ZREM', dead, execution_id)
  events[#events + 1] = offered_event(execution_id, attempt, now, queue)
end
if passed > 0 then
  redis.call('HSET', job, 'backfill_at', at)
  redis.call('HINCRBY', job, 'backfill_passed', passed)
  redis.call('HINCRBY', job, 'backfill_started', #starts)
  redis.call('HINCRBY', job, 'backfill_live', #starts)
elseif backfill_live == '0' and (state == 'cancelling' or at == '') then
  end_backfill(job, jobs, runs, backfills, id, events)
end
add_events(ledger, ledger_limit, events)
return #starts
