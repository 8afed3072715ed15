-- Dependent jobs: what an arrival from upstream means for one, and what it then does. `at` names keys and limits of the
-- shard: now job_prefix due_prefix ready_prefix runs_prefix arrivals_prefix inputs_prefix max_ready history_limit buckets
-- awaiting outbox, `gates` as read_gates gave them, and `room` (see take_room).
--@include lib/gates
--@include lib/head
--@include lib/rules
--@include lib/arrivals
--@include lib/outbox

-- Beside the words of its head.
local JOB = { 'upstreams', 'join', 'match', 'target', 'payload', 'group', 'dependents', 'gate_ms', 'ran_at', 'version' }

-- Whether a stream's entry is not newer than another one.
local function is_behind(entry, other)
  local ms, number = string.match(entry, '^(%d+)-(%d+)$')
  local other_ms, other_number = string.match(other or '', '^(%d+)-(%d+)$')
  if not other_ms then
    return false
  end
  ms, other_ms = tonumber(ms), tonumber(other_ms)
  return ms < other_ms or ms == other_ms and tonumber(number) <= tonumber(other_number)
end

-- The time at which a job fires that looks at the latest only: now, or the next one that it has not had.
local function fresh_time(key, now, ran_at)
  local time = string.format('%.0f', math.max(tonumber(now), tonumber(ran_at or 0) + 1))
  while redis.call('HEXISTS', key, 'x:' .. time) == 1 do
    time = string.format('%.0f', tonumber(time) + 1)
  end
  return time
end

-- What is to be done once enough conditions are met: fired, released, overlap, queued, replaced, paused, completed, running or
-- noted.
local function judge_start(at, row)
  local job, key = row.job, row.key
  local where, _, lapses_at = read_place(redis.call('HGET', key, 'x:' .. row.time) or nil)
  if where and where ~= 'gated' then
    return 'running'
  elseif where then
    row.released = lapses_at
    touch_due(at.buckets, at.due_prefix, lapses_at, job.queue, row.id .. '@' .. row.time)
  elseif job.gate_ms then
    -- Its schedule fires it, at once if all are there by then.
    return 'noted'
  elseif job.state ~= 'active' then
    return job.state
  end
  row.limits = job.rules and read_rules(key) or {}
  local verdict = row.released and 'fired' or judge_overlap(job.overlap, job.live, row.limits)
  if verdict == 'replaced' then
    row.older = touch_live(read_live(key), row.id, at.buckets, at.due_prefix, job.queue)
  end
  if verdict == 'fired' or verdict == 'replaced' then
    row.held_in, row.lanes = let_in(at, job.queue, job.target, job.group, row.older and permits_of(row.older))
  end
  return verdict
end

-- Read what an arrival means; nothing is written. An arrival is a table: entry upstream time outcome cause result again id
-- source. `answer` in it ends it; else `action` says what take_arrival is to do.
local function judge_arrival(at, row)
  row.key = at.job_prefix .. row.id
  local values = redis.call('HMGET', row.key, row.source, 'head', unpack(JOB))
  local job = read_head(values[2]) or {}
  for place, name in ipairs(JOB) do
    job[name] = values[place + 2]
  end
  local letter = job.upstreams and condition_of(job.upstreams, row.upstream)
  if not letter or is_behind(row.entry, values[1]) then
    row.answer = letter and 'already' or 'gone'
    return row
  end
  local is_latest = job.match == 'latest'
  row.job, row.is_met, row.action = job, is_met(letter, row.outcome), 'noted'
  row.awaited = row.id .. '@' .. (is_latest and 'latest' or row.time)
  row.arrivals = at.arrivals_prefix .. row.awaited
  local heard = read_heard(row.arrivals, job.upstreams, job.version)
  row.heard = heard
  if row.again == '1' and heard.is_new and not is_latest then
    -- It has had this time, and nothing was open.
    row.answer = 'already'
    return row
  end
  local was_met = count_arrival(heard, row.arrivals, row.upstream, letter, row.outcome)
  if is_latest and was_met and not row.is_met then
    -- It has succeeded since the job last fired, whatever came then.
    row.answer = 'noted'
    return row
  end
  if heard.state ~= 'fired' and is_enough(job.join, heard.met, job.upstreams) then
    row.time = is_latest and fresh_time(row.key, at.now, job.ran_at) or row.time
    row.action = judge_start(at, row)
  elseif not heard.state and (job.join ~= 'any' and heard.missed > 0 or heard.missed == count_upstreams(job.upstreams)) then
    row.action = 'blocked'
  end
  redis.call('EXISTS', row.arrivals, at.runs_prefix .. row.id, at.inputs_prefix .. row.id, at.due_prefix .. (row.held_in or ''))
  return row
end

local function skip(at, row, events, reason)
  add_skipped(at.runs_prefix .. row.id, at.history_limit, events, row.id, skip_record(row.time, reason))
end

-- Say that a time is not run because of what is above it. A gated one still waits for its deadline: its end is told then.
local function block(at, row, events)
  local cause = row.cause ~= '' and row.cause or row.upstream .. '@' .. row.time
  skip(at, row, events, 'upstream_failed: ' .. cause)
  if row.job.dependents and not row.job.gate_ms then
    tell_dependents(at.outbox, row.id, row.time, 'upstream_failed', cause, '')
  end
end

-- Start the execution of a time for which all is there.
local function start_dependent(at, row, inputs, events)
  local job, key, execution_id, attempt = row.job, row.key, row.id .. '@' .. row.time, row.heard.attempt
  local since, field = attempt ~= '1' and '.' .. attempt - 1 or '', nil
  if row.held_in then
    add_due(at.buckets, at.due_prefix, row.held_in, { at.now, execution_id })
    field = place_of('due', attempt, at.now, since)
  else
    local expires_at = expiry(row.time, attempt, row.limits.expires_after_ms)
    field = offer(at.ready_prefix .. job.queue, execution_id, attempt, at.now, expires_at, job.target, job.payload, job.retry,
      since, row.lanes, nil, inputs)
    events[#events + 1] = offered_event(execution_id, attempt, at.now, job.queue)
  end
  redis.call('HSET', key, 'x:' .. row.time, field)
  if not row.released then
    count_live(key, 1)
  end
end

local NOT_RUN = { overlap = true, paused = true, completed = true }

local function take_start(at, row, events)
  local job, key = row.job, row.key
  if NOT_RUN[row.action] then
    if row.action ~= 'completed' then
      skip(at, row, events, row.action)
    end
    if job.dependents then
      tell_skipped(at.outbox, row.id, row.time)
    end
    return 'skipped'
  elseif row.action == 'running' then
    return 'noted'
  end
  local inputs = gather_results(row.arrivals)
  if inputs ~= '' then
    redis.call('HSET', at.inputs_prefix .. row.id, row.time, inputs)
  end
  if row.released then
    forget_due(at.buckets, at.due_prefix, row.released, job.queue, row.id .. '@' .. row.time)
  elseif not spend(key, row.limits, row.action, row.time) then
    change_head(key, { state = 'completed' })
  end
  if job.match == 'latest' then
    redis.call('HSET', key, 'ran_at', row.time)
  end
  if row.action == 'replaced' then
    local records = {}
    replace_live(at, row.older, row.id, job.queue, records, job.dependents)
    count_live(key, -#row.older)
    for _, record in ipairs(records) do
      add_skipped(at.runs_prefix .. row.id, at.history_limit, events, row.id, record)
    end
  end
  if row.action ~= 'queued' then
    start_dependent(at, row, inputs, events)
  end
  return 'fired'
end

-- Do what judge_arrival found; return the word for it.
local function take_arrival(at, row, events)
  if row.heard then
    redis.call('HSET', row.key, row.source, row.entry)
  end
  if row.answer then
    return row.answer
  end
  local word, heard, is_latest = row.action, row.heard, row.job.match == 'latest'
  redis.call('HSET', row.arrivals, row.upstream, (row.is_met and '+' or '-') .. row.outcome .. ' ' .. row.result)
  save_heard(row.arrivals, heard)
  redis.call('ZADD', at.awaiting, at.now, row.awaited)
  if word == 'blocked' then
    redis.call('HSET', row.arrivals, '@state', word)
    block(at, row, events)
  elseif word ~= 'noted' then
    word, heard.state = take_start(at, row, events), 'fired'
  end
  if heard.state == 'fired' and is_latest then
    redis.call('DEL', row.arrivals)
    redis.call('ZREM', at.awaiting, row.awaited)
  elseif heard.state == 'fired' then
    close_arrivals(row.arrivals, at.awaiting, row.awaited, heard, row.job.upstreams)
  end
  return word
end
