-- What becomes of a due job: its record beside what was proposed, and what is then done.
--@include lib/gates
--@include lib/rules
--@include lib/arrivals

-- `job` holds next_run_at, plan, state, the live execution of the nominal time, overlap and live, in this order.
local function judge(job, rules, known_at, plan, nominal_at)
  if job[1] ~= known_at or job[2] ~= plan or job[3] ~= 'active' then
    return 'stale'
  end
  if nominal_at == '' or job[4] then
    return 'advanced'
  end
  return judge_overlap(job[5], tonumber(job[6] or 0), rules)
end

-- Whether a time has to wait for the executions of upstream jobs that it is gated by.
local function is_gated(rules, arrivals)
  return not is_enough(rules.join, read_heard(arrivals, rules.upstreams, rules.version).met, rules.upstreams)
end

-- Take what upstream jobs gave for a time out of its arrivals, for the execution that starts.
local function take_inputs(at, id, rules, nominal_at)
  local awaited = id .. '@' .. nominal_at
  local arrivals = at.arrivals_prefix .. awaited
  local heard, inputs = read_heard(arrivals, rules.upstreams, rules.version), gather_results(arrivals)
  if inputs ~= '' then
    redis.call('HSET', at.inputs_prefix .. id, nominal_at, inputs)
  end
  close_arrivals(arrivals, at.awaiting, awaited, heard, rules.upstreams)
  return inputs
end

-- Where a due job has to wait, nil if it does not, and then the lanes that it comes through. What it replaces leaves it the
-- permits that it had: else a limit of one would have it wait for what it is to end. `at` is as let_in has it, with
-- due_prefix, and `waiting` for waits_in.
local function find_place(at, verdict, member, job, rules, older)
  local held_in = waits_in(at.waiting, at.due_prefix, '@' .. job[7], member)
  if held_in or verdict ~= 'fired' and verdict ~= 'replaced' then
    return held_in
  end
  return let_in(at, job[7], job[8], rules.group, older and permits_of(older))
end

local NO_RULES = {}
local PLAIN = { rules = NO_RULES }

-- Read a due job beside what is proposed for it. Returns verdict, member, id, job, and `more` where it is no plain one: a table
-- of rules, held_in, lanes and older. `group` is the proposal: known_at (the `next_run_at` that was read) due_at nominal_at next_at
-- next_bucket skipped, and `live`, the field of its execution.
local function read_due(at, group, member)
  local bar = string.find(member, '|', 1, true)
  local id = string.sub(member, bar + 1)
  local key = at.job_prefix .. id
  local job = redis.call('HMGET', key, 'next_run_at', 'plan', 'state', group.live, 'overlap', 'live', 'queue', 'target', 'payload',
    'retry', 'rules')
  local rules, older, held_in, lanes = job[11] and read_rules(key) or NO_RULES, nil, nil, nil
  local verdict = judge(job, rules, group.known_at, string.sub(member, 1, bar - 1), group.nominal_at)
  if verdict == 'fired' and rules.gate_ms and is_gated(rules, at.arrivals_prefix .. id .. '@' .. group.nominal_at) then
    verdict = 'gated'
    redis.call('EXISTS', at.due_prefix .. bucket_of(group.due_at + rules.gate_ms), at.inputs_prefix .. id)
  end
  if verdict == 'stale' then
    member = left_over(at.bucket, member, group.known_at)
  else
    older = verdict == 'replaced' and touch_live(read_live(key), id, at.buckets, at.due_prefix, job[7])
    held_in, lanes = find_place(at, verdict, member, job, rules, older)
    if held_in then
      verdict = 'held'
      redis.call('EXISTS', at.due_prefix .. held_in)
    end
  end
  if group.skipped ~= '' or verdict == 'overlap' or verdict == 'replaced' then
    redis.call('EXISTS', at.runs_prefix .. id, at.inputs_prefix .. id)
  end
  if rules == NO_RULES and not held_in and not older and (not lanes or lanes == '') then
    return verdict, member, id, job
  end
  return verdict, member, id, job, { rules = rules, held_in = held_in, lanes = lanes, older = older }
end

-- Fire a job that has no rules beside what is live of it, and has missed nothing: nearly all of them.
local function fire_plainly(at, id, job, group, events)
  local due_at, next_at, execution_id = group.due_at, group.next_at, id .. '@' .. group.nominal_at
  local where = offer(at.ready_prefix .. job[7], execution_id, '1', due_at, '', job[8], job[9], job[10])
  redis.call('HSET', at.job_prefix .. id, 'next_run_at', next_at, 'state', next_at == '' and 'completed' or 'active',
    group.live, where, 'live', tonumber(job[6] or 0) + 1)
  events[#events + 1] = offered_event(execution_id, 1, due_at, job[7])
end

-- Carry out a verdict other than stale or held, for any job: `at` names keys and limits. Returns the job's next due time, '' if
-- it has none.
local function carry_out(at, verdict, id, job, group, more, events)
  local rules = more.rules
  local due_at, nominal_at, next_at = group.due_at, group.nominal_at, group.next_at
  local key, ready, live = at.job_prefix .. id, at.ready_prefix .. job[7], tonumber(job[6] or 0)
  local records, fires, inputs = {}, verdict == 'fired' or verdict == 'replaced', nil
  for record in string.gmatch(group.skipped, '[^\n]+') do
    records[#records + 1] = record
  end
  if (fires or verdict == 'queued' or verdict == 'gated') and not spend(key, rules, verdict, nominal_at) then
    next_at = ''
  end
  local change = { 'next_run_at', next_at, 'state', next_at == '' and 'completed' or 'active' }
  if verdict == 'overlap' then
    records[#records + 1] = skip_record(nominal_at, 'overlap')
  elseif verdict == 'replaced' then
    replace_live(at, more.older, id, job[7], records, rules.dependents)
    live = 0
  end
  if fires and rules.gate_ms then
    inputs = take_inputs(at, id, rules, nominal_at)
  end
  if verdict == 'gated' then
    local until_at = string.format('%.0f', due_at + rules.gate_ms)
    redis.call('HSET', key, 'x:' .. nominal_at, place_of('gated', '1', until_at), 'live', live + 1, unpack(change))
    add_due(at.buckets, at.due_prefix, bucket_of(until_at), { until_at, id .. '@' .. nominal_at })
    events[#events + 1] = '["gated","' .. id .. '@' .. nominal_at .. '",' .. until_at .. ']'
  elseif fires then
    local execution_id, expires_at = id .. '@' .. nominal_at, expiry(nominal_at, '1', rules.expires_after_ms)
    local where = offer(ready, execution_id, '1', due_at, expires_at, job[8], job[9], job[10], '', more.lanes, nil, inputs)
    redis.call('HSET', key, 'x:' .. nominal_at, where, 'live', live + 1, unpack(change))
    events[#events + 1] = offered_event(execution_id, 1, due_at, job[7])
  else
    redis.call('HSET', key, unpack(change))
  end
  if verdict == 'overlap' and rules.dependents then
    tell_skipped(at.outbox, id, nominal_at)
  end
  for _, record in ipairs(records) do
    add_skipped(at.runs_prefix .. id, at.history_limit, events, id, record)
  end
  return next_at
end
