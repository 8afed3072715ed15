-- Settle an attempt: its record, then retry, promise, dead letter or end, and what follows for the job. `at` names the keys
-- and limits of the shard: jobs buckets dead outbox now job_prefix due_prefix runs_prefix letter_prefix inputs_prefix history_limit, and
-- `gates` as read_gates gave them, and `touched`, an empty list for touch_settle and touch_gathered. `attempt` is a table:
--   id nominal_at execution_id number outcome detail since record   as complete_executions gets them
--   lanes    of its field `x:…`
--   rules    whether the job has any; only then can others depend on it, or it on others
--   head     of its job, if no other attempt of that job is settled by the script
--   result   what it gives jobs that depend on its own, as JSON, or ''
--   stream, fields   where it came from and what its entry held, for a dead letter
--@include lib/after
--@include lib/letters
--@include lib/outbox
--@include lib/records
--@include lib/gates
--@include lib/delivery

-- Whether the newest records hold an outcome that was recorded under the same proof.
local function is_recorded(runs, history_limit, nominal_at, outcome, attempt, deliveries, consumer, full)
  local start = '[' .. nominal_at .. ',"' .. outcome .. '",' .. attempt .. ',' .. deliveries .. ',"' .. consumer .. '",'
  for _, record in ipairs(redis.call('LRANGE', runs, 0, history_limit - 1)) do
    if record == full or string.sub(record, 1, #start) == start then
      return true
    end
  end
  return false
end

local function touch_settle(at, attempt)
  local key, outcome = at.job_prefix .. attempt.id, attempt.outcome
  if attempt.rules or attempt.detail == 'gone' then
    touch_follow_up(key, at.jobs, at.buckets, at.due_prefix, attempt.id, at.now)
    redis.call('EXISTS', at.inputs_prefix .. attempt.id)
  end
  if outcome == 'failed' or outcome == 'accepted' then
    redis.call('EXISTS', at.due_prefix .. bucket_of(attempt.detail))
  elseif outcome == 'dead' then
    redis.call('EXISTS', at.letter_prefix .. attempt.execution_id)
  end
  at.touched[#at.touched + 1] = at.runs_prefix .. attempt.id
end

-- Touch what was gathered of all attempts, after the last one: one command for all.
local function touch_gathered(at)
  if #at.touched > 0 then
    redis.call('EXISTS', unpack(at.touched))
  end
end

-- What the end of an execution is to the jobs above it, whose results it does not need any more, and to those below it.
local function settle_dependencies(at, attempt, key)
  local known = redis.call('HMGET', key, 'x:' .. attempt.nominal_at, 'dependents')
  if attempt.outcome ~= 'dead' then
    redis.call('HDEL', at.inputs_prefix .. attempt.id, attempt.nominal_at)
  end
  if known[2] then
    local _, _, _, since = read_place(known[1])
    local cause = attempt.outcome ~= 'succeeded' and attempt.execution_id or ''
    tell_dependents(at.outbox, attempt.id, attempt.nominal_at, attempt.outcome, cause, attempt.result or '', is_again(since))
  end
end

-- Whether an end asks for nothing beyond its record: nearly all do not.
local function is_plain_end(at, outcome, head)
  return outcome == 'succeeded' and not at.gates and not has_rules(head)
end

-- Six values an end in one table: a table for each would cost as much as all else.
local function note_plain_end(at, plain, entry, id, nominal_at, execution_id, record, head)
  local n = #plain
  plain[n + 1], plain[n + 2], plain[n + 3] = entry, id, nominal_at
  plain[n + 4], plain[n + 5], plain[n + 6] = execution_id, record, head
  at.touched[#at.touched + 1] = at.runs_prefix .. id
end

-- Carry out what was noted: entries of one stream, each job once.
local function end_plainly(at, ready, plain, events)
  local entries, heads = {}, {}
  for n = 1, #plain, 6 do
    local entry, id, nominal_at, execution_id, record, head = unpack(plain, n, n + 5)
    local key = at.job_prefix .. id
    heads[head] = heads[head] or with_live(head, -1)
    add_record(at.runs_prefix .. id, at.history_limit, record)
    redis.call('HDEL', key, 'x:' .. nominal_at)
    redis.call('HSET', key, 'head', heads[head])
    entries[#entries + 1] = entry
    events[#events + 1] = '["succeeded","' .. execution_id .. '",' .. record .. ']'
  end
  drop_entries(ready, entries)
end

local function settle(at, attempt, events)
  local id, nominal_at, outcome, detail = attempt.id, attempt.nominal_at, attempt.outcome, attempt.detail
  local key, runs = at.job_prefix .. id, at.runs_prefix .. id
  if outcome == 'accepted' then
    redis.call('HSET', key, 'x:' .. nominal_at, place_of('async', attempt.number, detail, attempt.since, attempt.lanes))
    add_due(at.buckets, at.due_prefix, bucket_of(detail), { detail, attempt.execution_id })
    return
  end
  if at.gates then
    let_out(at.gates, attempt.lanes)
  end
  add_record(runs, at.history_limit, attempt.record)
  if outcome == 'failed' then
    redis.call('HSET', key, 'x:' .. nominal_at, place_of('due', attempt.number + 1, detail, attempt.since))
    add_due(at.buckets, at.due_prefix, bucket_of(detail), { detail, attempt.execution_id })
    return
  end
  if attempt.rules then
    settle_dependencies(at, attempt, key)
  end
  local is_seen = end_execution(key, nominal_at, outcome, attempt.head)
  if outcome == 'dead' then
    bury(at.dead, at.letter_prefix .. attempt.execution_id, runs, at.history_limit, at.now, attempt.execution_id, nominal_at,
      attempt.number, detail, attempt.stream, attempt.fields, redis.call('HGET', key, 'definition'))
  end
  if detail == 'gone' then
    pause_for('its target answered 410 Gone', key, at.buckets, at.due_prefix, id, at.now, events)
  end
  if attempt.rules and is_seen then
    follow_up(key, runs, at.jobs, at.buckets, at.due_prefix, id, outcome, at.now, events)
  end
end
