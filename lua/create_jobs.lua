-- Register jobs of one shard: each into its hash, the lists of ids and the due index, or straight into its queue.
-- Safe because: an id that exists is left as it is, and a plan id never comes to mean another plan; where a job of the shard
-- was deleted with executions that went on, what new ones start by themselves or by hand has a later nominal time than those.
-- KEYS: jobs plans buckets gates ledger ran_at
-- ARGV: job_prefix due_prefix ready_prefix dependents_prefix max_ready ledger_limit plan_count shape_count rows...
--       `plan_count` pairs plan_id canonical; then `shape_count` shapes, which is what jobs have in common, of 20 values each:
--       plan_id, the 18 of lib/job with '' for the payload, and the note of a pause for jobs that begin paused, or ''; then
--       jobs of 5 values each: id shape next_run_at run_at payload.
--       `shape` is the number of one, from 1. next_run_at '' means that the job has no time to come; run_at is the nominal
--       time of an execution to start now, or ''
-- Reply: {1 or 0 or run_at, …} for each job: registered, or its id exists, or registered with this nominal time in place of
--        the one that was asked for
-- Error: CONFLICT
--@include lib/start
--@include lib/shape
--@include lib/index
--@include lib/records
local jobs = KEYS[1]
local plans = KEYS[2]
local buckets = KEYS[3]
local gates = KEYS[4]
local ledger = KEYS[5]
local ran_at = KEYS[6]
local job_prefix = ARGV[1]
local due_prefix = ARGV[2]
local ready_prefix = ARGV[3]
local dependents_prefix = ARGV[4]
local max_ready = tonumber(ARGV[5])
local ledger_limit = tonumber(ARGV[6])
local plan_count = tonumber(ARGV[7])
local shape_count = tonumber(ARGV[8])
local first_plan = 9
local first_shape = first_plan + 2 * plan_count
local first_job = first_shape + SHAPE_SIZE * shape_count

redis.call('EXISTS', jobs, plans, buckets, ledger, due_prefix .. '@')
local at, last = { ready_prefix = ready_prefix, max_ready = max_ready, gates = read_gates(gates), room = {} }, redis.call('GET', ran_at)
for n = first_plan, first_shape - 1, 2 do
  local known = redis.call('HGET', plans, ARGV[n])
  if known and known ~= ARGV[n + 1] then
    return redis.error_reply('CONFLICT plan id ' .. ARGV[n] .. ' stands for another plan already')
  end
end
local shapes = read_shapes(first_shape, shape_count)
local exists, dependents = which_exist(job_prefix, first_job), which_exist(dependents_prefix, first_job)
local reply, seen, needed, touched, held_in, lanes = {}, {}, {}, {}, {}, {}
for n = first_job, #ARGV, NEW_JOB_SIZE do
  local id, shape, next_run_at, run_at = ARGV[n], shapes[tonumber(ARGV[n + 1])], ARGV[n + 2], ARGV[n + 3]
  local is_new = not seen[id] and not exists[n]
  seen[id] = true
  needed[shape.plan_id] = needed[shape.plan_id] or is_new
  if touched[shape] ~= next_run_at then
    touched[shape] = next_run_at
    touch_due(buckets, due_prefix, next_run_at, shape.queue)
    touch_index(jobs, shape.group, shape.tags)
  end
  reply[#reply + 1] = is_new and 1 or 0
  if is_new and run_at ~= '' then
    held_in[n], lanes[n] = let_in(at, shape.queue, shape.target, shape.group)
    redis.call('EXISTS', due_prefix .. (held_in[n] or ''))
  end
end

for n = first_plan, first_shape - 1, 2 do
  if needed[ARGV[n]] then
    redis.call('HSET', plans, ARGV[n], ARGV[n + 1])
  end
end
local events, ids, due = {}, {}, {}
for n = first_job, #ARGV, NEW_JOB_SIZE do
  local id, number, next_run_at, run_at, payload = unpack(ARGV, n, n + NEW_JOB_SIZE - 1)
  local key, shape = job_prefix .. id, shapes[tonumber(number)]
  local place = (n - first_job) / NEW_JOB_SIZE + 1
  if reply[place] == 1 then
    write_new(key, shape, next_run_at, payload, run_at ~= '' and 1 or 0, dependents[n])
    run_at, reply[place] = start_after(key, run_at, last)
    ids[#ids + 1], ids[#ids + 2] = 0, id
    add_to_index(jobs, id, shape.group, shape.tags, #payload)
    note_created(events, id, shape)
    note_due(due, next_run_at, id, shape)
    if run_at ~= '' then
      local execution_id, ready = id .. '@' .. run_at, ready_prefix .. shape.queue
      local live = start_now(held_in[n], lanes[n], buckets, due_prefix, ready, execution_id, run_at, work_of(shape, payload))
      redis.call('HSET', key, 'x:' .. run_at, live)
      if not held_in[n] then
        events[#events + 1] = offered_event(execution_id, 1, run_at, shape.queue)
      end
    end
  end
end
if #ids > 0 then
  redis.call('ZADD', jobs, unpack(ids))
end
add_all_due(buckets, due_prefix, due)
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return reply
