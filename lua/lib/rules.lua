-- What a job may ask for beyond the usual. A job that has any of it says so in its head, so that others cost no second look:
--   runs_left                executions that may still fire; the last one completes the job
--   expires_after_ms         an execution that has not started so long after its nominal time is dropped
--   pause_after_failures     dead executions in a row that pause the job; `failures` counts them
--   delete_after_completion  the job goes when it is completed and nothing of it is live
--   queued                   nominal times that wait for an older execution to end, oldest first, a blank between two
--   last                     how the newest execution ended, for overlap `after_success`
--   gate_ms                  each time waits so long for the upstream jobs' executions of that time
--   group                    who shares the queue fairly
--   dependents               other jobs depend on it
--   concurrency              how many may be live before the overlap policy decides, if not one
--@include lib/due
--@include lib/delivery
--@include lib/gates
--@include lib/outbox
--@include lib/records

local MOST_QUEUED = 100

local function read_rules(key)
  local known = redis.call('HMGET', key, 'runs_left', 'expires_after_ms', 'queued', 'last', 'concurrency',
    'gate_ms', 'upstreams', 'join', 'version', 'group', 'dependents')
  return { runs_left = tonumber(known[1]), expires_after_ms = known[2], queued = known[3], last = known[4],
    concurrency = tonumber(known[5]), gate_ms = known[6], upstreams = known[7], join = known[8],
    version = known[9], group = known[10], dependents = known[11] }
end

-- What a due job does about its older executions: 'fired' (beside them), 'overlap' (not at all), 'queued' (after them) or
-- 'replaced' (in place of them).
local function judge_overlap(overlap, live, rules)
  if overlap == 'after_success' then
    if live == 0 and not rules.queued and rules.last ~= 'dead' then
      return 'fired'
    end
  elseif overlap == 'allow' or live == 0 or live < (rules.concurrency or 1) and not rules.queued then
    return 'fired'
  elseif overlap == 'skip' then
    return 'overlap'
  elseif overlap == 'replace' then
    return 'replaced'
  end
  local _, queued = string.gsub(rules.queued or '', '%d+', '')
  return queued < (overlap == 'queue_one' and 1 or MOST_QUEUED) and 'queued' or 'overlap'
end

local function skip_record(nominal_at, reason)
  return '[' .. nominal_at .. ',"skipped",' .. nominal_at .. ',1,1,"' .. reason .. '"]'
end

-- Of what is live return what `replace_live` is to end, and touch what that writes. What a backfill started stays.
local function touch_live(live, id, buckets, due_prefix, queue)
  local older = {}
  for _, execution in ipairs(live) do
    local nominal_at, where, _, at = unpack(execution, 1, 4)
    if not execution.is_backfilled then
      older[#older + 1] = execution
      if where ~= 'ready' then
        touch_due(buckets, due_prefix, at, queue, id .. '@' .. nominal_at)
      end
    end
  end
  return older
end

-- The permits that live executions hold, by lane.
local function permits_of(live)
  local held = {}
  for _, execution in ipairs(live) do
    for lane in string.gmatch(execution[6] or '', '[^,]+') do
      held[lane] = (held[lane] or 0) + 1
    end
  end
  return held
end

-- Take a live execution away from where it is, and give back its permits. A consumer that runs it has lost it. `at` has
-- ready_prefix, buckets, due_prefix, and `gates` as read_gates gave them.
local function withdraw(at, id, queue, execution)
  local nominal_at, where, _, place, _, lanes = unpack(execution, 1, 6)
  let_out(at.gates, lanes)
  if where == 'ready' then
    drop_entry(at.ready_prefix .. queue, place)
  else
    forget_due(at.buckets, at.due_prefix, place, queue, id .. '@' .. nominal_at)
  end
end

-- End live executions of a job in favour of a newer one, and add their records. `at` has inputs_prefix and outbox too.
local function replace_live(at, live, id, queue, records, has_dependents)
  for _, execution in ipairs(live) do
    withdraw(at, id, queue, execution)
    redis.call('HDEL', at.job_prefix .. id, 'x:' .. execution[1])
    redis.call('HDEL', at.inputs_prefix .. id, execution[1])
    if has_dependents then
      tell_skipped(at.outbox, id, execution[1])
    end
    records[#records + 1] = skip_record(execution[1], 'replaced')
  end
end

-- What a job that fires, now or later, does to its own rules: the time to wait for an older execution, the count of
-- executions left. Returns whether it may fire again.
local function spend(key, rules, verdict, nominal_at)
  if verdict == 'queued' then
    redis.call('HSET', key, 'queued', rules.queued and rules.queued .. ' ' .. nominal_at or nominal_at)
  end
  return not rules.runs_left or redis.call('HINCRBY', key, 'runs_left', -1) > 0
end
