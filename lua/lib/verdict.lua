-- What becomes of a due job: its record beside what was proposed, and what is then done.
--@include lib/gates
--@include lib/rules

-- `job` holds next_run_at, plan, state, the live execution of the nominal time, overlap and live, in this order.
local function judge(job, rules, due_at, plan, nominal_at)
  if job[1] ~= due_at or job[2] ~= plan or job[3] ~= 'active' then
    return 'stale'
  end
  if nominal_at == '' or job[4] then
    return 'advanced'
  end
  return judge_overlap(job[5], tonumber(job[6] or 0), rules)
end

-- Where a due job has to wait, nil if it does not, and then the lanes that it comes through. What it replaces leaves it the
-- permits that it had: else a limit of one would have it wait for what it is to end. `at` is as let_in has it, with
-- due_prefix, and `waiting` for waits_in.
local function find_place(at, verdict, member, job, older)
  local held_in = waits_in(at.waiting, at.due_prefix, '@' .. job[7], member)
  if held_in or verdict ~= 'fired' and verdict ~= 'replaced' then
    return held_in
  end
  return let_in(at, job[7], job[8], job[12], older and permits_of(older))
end

-- Fire a job that has no rules beside what is live of it, and has missed nothing: nearly all of them.
local function fire_plainly(at, id, job, due_at, nominal_at, next_at, lanes, events)
  local execution_id = id .. '@' .. nominal_at
  local where = offer(at.ready_prefix .. job[7], execution_id, '1', due_at, '', job[8], job[9], job[10], '', lanes)
  redis.call('HSET', at.job_prefix .. id, 'next_run_at', next_at, 'state', next_at == '' and 'completed' or 'active',
    'x:' .. nominal_at, where, 'live', tonumber(job[6] or 0) + 1)
  events[#events + 1] = offered_event(execution_id, 1, due_at, job[7])
end

-- Carry out a verdict other than stale or held, for any job: `at` names keys and limits, `older` is what is live of it where
-- that is replaced. Returns the job's next due time, '' if it has none.
local function carry_out(verdict, at, id, job, rules, older, due_at, nominal_at, next_at, skipped, lanes, events)
  local key, ready, live = at.job_prefix .. id, at.ready_prefix .. job[7], tonumber(job[6] or 0)
  local records, fires = {}, verdict == 'fired' or verdict == 'replaced'
  for record in string.gmatch(skipped, '[^\n]+') do
    records[#records + 1] = record
  end
  if (fires or verdict == 'queued') and not spend(key, rules, verdict, nominal_at) then
    next_at = ''
  end
  local change = { 'next_run_at', next_at, 'state', next_at == '' and 'completed' or 'active' }
  if verdict == 'overlap' then
    records[#records + 1] = skip_record(nominal_at, 'overlap')
  elseif verdict == 'replaced' then
    replace_live(at, older, id, job[7], records)
    live = 0
  end
  if fires then
    local execution_id, expires_at = id .. '@' .. nominal_at, expiry(nominal_at, '1', rules.expires_after_ms)
    local where = offer(ready, execution_id, '1', due_at, expires_at, job[8], job[9], job[10], '', lanes)
    redis.call('HSET', key, 'x:' .. nominal_at, where, 'live', live + 1, unpack(change))
    events[#events + 1] = offered_event(execution_id, 1, due_at, job[7])
  else
    redis.call('HSET', key, unpack(change))
  end
  for _, record in ipairs(records) do
    add_skipped(at.runs_prefix .. id, at.history_limit, events, id, record)
  end
  return next_at
end
