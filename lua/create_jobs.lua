-- Register jobs of one shard: each into its hash, the list of ids and the due index, or straight into its queue.
-- Safe because: an id that exists is left as it is, and a plan id never comes to mean another plan.
-- KEYS: jobs plans buckets gates ledger
-- ARGV: job_prefix due_prefix ready_prefix dependents_prefix max_ready ledger_limit plan_count plans_and_jobs...
--       `plan_count` pairs plan_id canonical, then jobs of 21 values each: id plan_id next_run_at run_at, and the 17 of
--       lib/job. next_run_at '' means that the job has no time to come; run_at is the nominal time of an execution to
--       start now, or ''
-- Reply: {1 or 0, …} for each job: registered, or its id exists
-- Error: CONFLICT
--@include lib/start
--@include lib/job
--@include lib/records
local jobs = KEYS[1]
local plans = KEYS[2]
local buckets = KEYS[3]
local gates = KEYS[4]
local ledger = KEYS[5]
local job_prefix = ARGV[1]
local due_prefix = ARGV[2]
local ready_prefix = ARGV[3]
local dependents_prefix = ARGV[4]
local max_ready = tonumber(ARGV[5])
local ledger_limit = tonumber(ARGV[6])
local plan_count = tonumber(ARGV[7])
local first_plan = 8
local first_job = first_plan + 2 * plan_count
local JOB_SIZE = 21

redis.call('EXISTS', jobs, plans, buckets, ledger, due_prefix .. '@')
local at = { ready_prefix = ready_prefix, max_ready = max_ready, gates = read_gates(gates), room = {} }
for n = first_plan, first_job - 1, 2 do
  local known = redis.call('HGET', plans, ARGV[n])
  if known and known ~= ARGV[n + 1] then
    return redis.error_reply('CONFLICT plan id ' .. ARGV[n] .. ' stands for another plan already')
  end
end
local reply, seen, needed, held_in, lanes = {}, {}, {}, {}, {}
for n = first_job, #ARGV, JOB_SIZE do
  local id, plan_id, next_run_at, run_at, queue = unpack(ARGV, n, n + 4)
  local is_new = not seen[id] and redis.call('EXISTS', job_prefix .. id) == 0
  seen[id] = true
  needed[plan_id] = needed[plan_id] or is_new
  touch_due(buckets, due_prefix, next_run_at, queue)
  reply[#reply + 1] = is_new and 1 or 0
  if is_new and run_at ~= '' then
    held_in[n], lanes[n] = let_in(at, queue, ARGV[n + 6], ARGV[n + 16])
    redis.call('EXISTS', due_prefix .. (held_in[n] or ''))
  end
end

for n = first_plan, first_job - 1, 2 do
  if needed[ARGV[n]] then
    redis.call('HSET', plans, ARGV[n], ARGV[n + 1])
  end
end
local events = {}
for n = first_job, #ARGV, JOB_SIZE do
  local id, plan_id, next_run_at, run_at, queue, _, target, payload, retry = unpack(ARGV, n, n + 8)
  local key, expires_after_ms = job_prefix .. id, ARGV[n + 12]
  if reply[(n - first_job) / JOB_SIZE + 1] == 1 then
    redis.call('HSET', key, 'state', state_of(next_run_at, n + 4), 'plan', plan_id, 'next_run_at', next_run_at)
    write_definition(key, n + 4)
    if redis.call('EXISTS', dependents_prefix .. id) == 1 then
      redis.call('HSET', key, 'dependents', 1, 'rules', 1)
    end
    redis.call('ZADD', jobs, 0, id)
    events[#events + 1] = '["created","' .. id .. '"]'
    if next_run_at ~= '' then
      add_due(buckets, due_prefix, bucket_of(next_run_at), { next_run_at, plan_id .. '|' .. id })
    end
    if run_at ~= '' then
      local execution_id, work = id .. '@' .. run_at, { target, payload, retry, expires_after_ms }
      local ready = ready_prefix .. queue
      local live = start_now(held_in[n], lanes[n], buckets, due_prefix, ready, execution_id, run_at, work)
      redis.call('HSET', key, 'x:' .. run_at, live, 'live', 1)
      if not held_in[n] then
        events[#events + 1] = offered_event(execution_id, 1, run_at, queue)
      end
    end
  end
end
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return reply
