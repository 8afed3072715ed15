-- What becomes of a due job: its record beside what was proposed, and what is then done.
-- `group` is a proposal: plan, known_at (the `next_run_at` that was read) due_at nominal_at next_at next_bucket skipped, and
-- `live`, the field of its execution.
--@include lib/gates
--@include lib/head
--@include lib/rules
--@include lib/arrivals

-- `is_live` says that the nominal time is live already.
local function judge(job, is_live, rules, group)
  if not job or job.next_run_at ~= group.known_at or job.plan ~= group.plan or job.state ~= 'active' then
    return 'stale'
  end
  if group.nominal_at == '' or is_live then
    return 'advanced'
  end
  return judge_overlap(job.overlap, job.live, rules)
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
  local held_in = waits_in(at.waiting, at.due_prefix, '@' .. job.queue, member)
  if held_in or verdict ~= 'fired' and verdict ~= 'replaced' then
    return held_in
  end
  return let_in(at, job.queue, job.target, rules.group, older and permits_of(older))
end

-- What firing makes of a job with this head, if it asks for nothing beyond times and a target, has missed nothing, has nothing
-- live, and nothing waits at its stream or at a gate: nearly all jobs. False for others. It depends on nothing else of the job,
-- so jobs with the same head share the answer.
local function judge_plain(at, group, text)
  local job = read_head(text)
  if not job or job.rules or job.live > 0 or at.gates or group.skipped ~= '' or judge(job, false, {}, group) ~= 'fired'
    or is_waiting(at.waiting, at.due_prefix, '@' .. job.queue) or is_waiting(at.waiting, at.due_prefix, '@') then
    return false
  end
  job.state, job.next_run_at, job.live = group.next_at == '' and 'completed' or 'active', group.next_at, 1
  return { ready = at.ready_prefix .. job.queue, head = head_of(job), more = job.retry ~= '' and { 'retry', job.retry } or {},
    event_end = offered_event_end(1, group.due_at, job.queue), fired = {} }
end

-- The same by head, worked out as it is asked for. `plain` lists all that are.
local function judge_plain_heads(at, group, plain)
  return setmetatable({}, { __index = function(judged, text)
    judged[text] = judge_plain(at, group, text)
    plain[#plain + 1] = judged[text] or nil
    return judged[text]
  end })
end

local function fire_plain(at, id, job, group, plain)
  local execution_id = id .. '@' .. group.nominal_at
  local entry = redis.call('XADD', plain.ready, '*', 'execution_id', execution_id, 'attempt', '1', 'due_at', group.due_at,
    'target', job[2], 'payload', job[3], unpack(plain.more))
  redis.call('HSET', at.job_prefix .. id, 'head', plain.head, group.live, 'ready:1:' .. entry)
  plain.fired[#plain.fired + 1] = execution_id
end

-- The events of all that was fired plainly: one text for all with the same head, since a text for each would cost as much as
-- reading the job.
local function tell_plain(plain, events)
  for _, alike in ipairs(plain) do
    if #alike.fired > 0 then
      events[#events + 1] = '["fired","' .. table.concat(alike.fired, alike.event_end .. '\n["fired","') .. alike.event_end
    end
  end
end

local NO_RULES = {}

-- Read any due job beside what is proposed for it. `found` is its head, target and payload. Returns verdict, member, job (a head
-- with target and payload), and `more`: rules, held_in, lanes and older.
local function read_due(at, group, member, id, found)
  local key, job = at.job_prefix .. id, read_head(found[1])
  local rules, older, held_in, lanes = job and job.rules and read_rules(key) or NO_RULES, nil, nil, nil
  local verdict = judge(job, redis.call('HEXISTS', key, group.live) == 1, rules, group)
  if verdict == 'fired' and rules.gate_ms and is_gated(rules, at.arrivals_prefix .. id .. '@' .. group.nominal_at) then
    verdict = 'gated'
    redis.call('EXISTS', at.due_prefix .. bucket_of(group.due_at + rules.gate_ms), at.inputs_prefix .. id)
  end
  if verdict == 'stale' then
    member = left_over(at.bucket, member, group.known_at)
  else
    job.target, job.payload = found[2], found[3]
    older = verdict == 'replaced' and touch_live(read_live(key), id, at.buckets, at.due_prefix, job.queue)
    held_in, lanes = find_place(at, verdict, member, job, rules, older)
    if held_in then
      verdict = 'held'
      redis.call('EXISTS', at.due_prefix .. held_in)
    end
  end
  if group.skipped ~= '' or verdict == 'overlap' or verdict == 'replaced' then
    redis.call('EXISTS', at.runs_prefix .. id, at.inputs_prefix .. id)
  end
  return verdict, member, job, { rules = rules, held_in = held_in, lanes = lanes, older = older }
end

-- Carry out a verdict other than stale or held: `at` names keys and limits. Returns the job's next due time, '' if it has none.
local function carry_out(at, verdict, id, job, group, more, events)
  local rules = more.rules
  local due_at, nominal_at, next_at = group.due_at, group.nominal_at, group.next_at
  local key, ready = at.job_prefix .. id, at.ready_prefix .. job.queue
  local records, fires, inputs = {}, verdict == 'fired' or verdict == 'replaced', nil
  for record in string.gmatch(group.skipped, '[^\n]+') do
    records[#records + 1] = record
  end
  if (fires or verdict == 'queued' or verdict == 'gated') and not spend(key, rules, verdict, nominal_at) then
    next_at = ''
  end
  job.next_run_at, job.state = next_at, next_at == '' and 'completed' or 'active'
  if verdict == 'overlap' then
    records[#records + 1] = skip_record(nominal_at, 'overlap')
  elseif verdict == 'replaced' then
    replace_live(at, more.older, id, job.queue, records, rules.dependents)
    job.live = 0
  end
  if fires and rules.gate_ms then
    inputs = take_inputs(at, id, rules, nominal_at)
  end
  if verdict == 'gated' then
    local until_at = string.format('%.0f', due_at + rules.gate_ms)
    job.live = job.live + 1
    redis.call('HSET', key, 'x:' .. nominal_at, place_of('gated', '1', until_at), 'head', head_of(job))
    add_due(at.buckets, at.due_prefix, bucket_of(until_at), { until_at, id .. '@' .. nominal_at })
    events[#events + 1] = '["gated","' .. id .. '@' .. nominal_at .. '",' .. until_at .. ']'
  elseif fires then
    local execution_id, expires_at = id .. '@' .. nominal_at, expiry(nominal_at, '1', rules.expires_after_ms)
    local where = offer(ready, execution_id, '1', due_at, expires_at, job.target, job.payload, job.retry, '', more.lanes, nil, inputs)
    job.live = job.live + 1
    redis.call('HSET', key, 'x:' .. nominal_at, where, 'head', head_of(job))
    events[#events + 1] = offered_event(execution_id, 1, due_at, job.queue)
  else
    redis.call('HSET', key, 'head', head_of(job))
  end
  if verdict == 'overlap' and rules.dependents then
    tell_skipped(at.outbox, id, nominal_at)
  end
  for _, record in ipairs(records) do
    add_skipped(at.runs_prefix .. id, at.history_limit, events, id, record)
  end
  return next_at
end
