-- Go on with a backfill: start its next nominal times while it has places, and end it when nothing is left of it.
-- What it starts is marked `b:<nominal>` in the job's hash and counts in `backfill_live`, not in `live`: neither overlap nor
-- the job's other rules see it.
-- Safe because: times are started only from the place that was read, and the place moves in the same script; a time that is
-- live, waits, or is still the schedule's is passed over.
-- KEYS: fence job jobs runs backfills dead gates ledger
-- ARGV: token holder id number now place following ready_prefix letter_prefix max_ready ledger_limit times...
--       number and place are those that were read; following is the place after all times, '' at the end; a time is
--       nominal_at and the attempt to make, '' to pass it over
-- Reply: how many were started
-- Error: FENCED
--@include lib/fence
--@include lib/backfill
--@include lib/gates
--@include lib/records
local fence = KEYS[1]
local job = KEYS[2]
local jobs = KEYS[3]
local runs = KEYS[4]
local backfills = KEYS[5]
local dead = KEYS[6]
local gates = KEYS[7]
local ledger = KEYS[8]
local token = ARGV[1]
local holder = ARGV[2]
local id = ARGV[3]
local number = ARGV[4]
local now = ARGV[5]
local place = ARGV[6]
local following = ARGV[7]
local ready_prefix = ARGV[8]
local letter_prefix = ARGV[9]
local max_ready = tonumber(ARGV[10])
local ledger_limit = tonumber(ARGV[11])
local times = 12

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end
redis.call('EXISTS', jobs, runs, backfills, dead, ledger)
touch_forgotten(jobs, job)
local limits = { ready_prefix = ready_prefix, max_ready = max_ready, gates = read_gates(gates), room = {} }
local known = redis.call('HMGET', job, 'backfill_state', 'backfill_number', 'backfill_at', 'backfill_concurrency',
  'backfill_live', 'queued', 'target', 'payload', 'group', 'head')
local state, known_number, at, concurrency, backfill_live, queued, target, payload, group = unpack(known, 1, 9)
if state ~= 'running' and state ~= 'cancelling' then
  -- The job is gone, or the backfill has ended.
  redis.call('SREM', backfills, id)
  return 0
end
if known_number ~= number then
  return 0
end
local head = read_head(known[10])

local starts, passed = {}, 0
local free = tonumber(concurrency) - tonumber(backfill_live)
if state == 'running' and at == place then
  at = following
  for n = times, #ARGV, 2 do
    local nominal_at, attempt = ARGV[n], ARGV[n + 1]
    if attempt ~= '' and not is_taken(job, nominal_at, head.next_run_at, queued) then
      local held_in, lanes = 'no place'
      if #starts < free then
        held_in, lanes = let_in(limits, head.queue, target, group)
      end
      if held_in then
        at = nominal_at
        break
      end
      redis.call('EXISTS', letter_prefix .. id .. '@' .. nominal_at)
      starts[#starts + 1] = { id .. '@' .. nominal_at, attempt, lanes }
    end
    passed = passed + 1
  end
end

local events, work = {}, { target, payload, head.retry }
for _, start in ipairs(starts) do
  local execution_id, attempt, lanes = unpack(start, 1, 3)
  start_time(job, ready_prefix .. head.queue, dead, letter_prefix .. execution_id, execution_id, attempt, now, work, lanes)
  events[#events + 1] = offered_event(execution_id, attempt, now, head.queue)
end
if passed > 0 then
  redis.call('HSET', job, 'backfill_at', at)
  redis.call('HINCRBY', job, 'backfill_passed', passed)
  redis.call('HINCRBY', job, 'backfill_started', #starts)
  redis.call('HINCRBY', job, 'backfill_live', #starts)
elseif backfill_live == '0' and (state == 'cancelling' or at == '') then
  end_backfill(job, jobs, runs, backfills, id, events)
end
save_gates(gates, limits.gates)
add_events(ledger, ledger_limit, events)
return #starts
