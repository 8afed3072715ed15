-- What follows from the end of an execution, for jobs that have rules (see lib/rules).
--@include lib/due
--@include lib/head
--@include lib/index

-- Touch what `follow_up` may write.
local function touch_follow_up(key, jobs, buckets, due_prefix, id, now)
  local text, is_deleted = unpack(redis.call('HMGET', key, 'head', 'delete_after_completion'), 1, 2)
  local head = read_head(text)
  touch_due(buckets, due_prefix, head.next_run_at, head.queue, head.plan .. '|' .. id)
  redis.call('EXISTS', due_prefix .. bucket_of(now))
  if is_deleted then
    touch_forgotten(jobs, key)
  end
end

-- Start what waits for an older execution, oldest first, while fewer than `most` are live: several where an edit made room.
local function start_waiting(key, id, buckets, due_prefix, queued, live, most, now)
  while queued ~= '' and live < most do
    local first, rest = string.match(queued, '^(%d+) ?(.*)$')
    redis.call('HSET', key, 'x:' .. first, 'due:1:' .. now)
    add_due(buckets, due_prefix, bucket_of(now), { now, id .. '@' .. first })
    queued, live = rest, live + 1
  end
  change_head(key, { live = live })
  redis.call('HSET', key, 'queued', queued)
  if queued == '' then
    redis.call('HDEL', key, 'queued')
  end
end

-- Pause a job, if it is active, and say why in `events`.
local function pause_for(why, key, buckets, due_prefix, id, now, events)
  local head = head_at(key)
  if head.state ~= 'active' then
    return
  end
  local note = '{"by":"waterclock","at":' .. now .. ',"note":"' .. why .. '"}'
  if head.next_run_at ~= '' then
    forget_due(buckets, due_prefix, head.next_run_at, head.queue, head.plan .. '|' .. id)
  end
  redis.call('HDEL', key, 'resume_note')
  redis.call('HSET', key, 'pause_note', note)
  change_head(key, { state = 'paused' })
  events[#events + 1] = '["paused","' .. id .. '",' .. note .. ']'
end

-- Pause the job after too many failures, start what waited for this end, or delete what is done with; say so in
-- `events`.
local function follow_up(key, runs, jobs, buckets, due_prefix, id, outcome, now, events)
  local known = redis.call('HMGET', key, 'head', 'queued', 'failures', 'pause_after_failures', 'delete_after_completion',
    'backfill_state', 'last', 'concurrency')
  local head, queued, failures, pause_after, is_deleted = read_head(known[1]), unpack(known, 2, 5)
  local is_backfilling = known[6] == 'running' or known[6] == 'cancelling'
  local last = (outcome == 'dead' or outcome == 'succeeded') and outcome or known[7]
  if outcome == 'dead' then
    failures = tonumber(failures or 0) + 1
    redis.call('HSET', key, 'failures', failures, 'last', outcome)
    if pause_after and failures >= tonumber(pause_after) then
      pause_for(failures .. ' executions failed in a row', key, buckets, due_prefix, id, now, events)
    end
  elseif outcome == 'succeeded' then
    redis.call('HDEL', key, 'failures')
    redis.call('HSET', key, 'last', outcome)
  end
  local most = head.overlap == 'after_success' and (last == 'dead' and 0 or 1) or tonumber(known[8] or 1)
  if queued and head.live < most then
    start_waiting(key, id, buckets, due_prefix, queued, head.live, most, now)
  elseif is_deleted and head.state == 'completed' and head.live == 0 and not queued and not is_backfilling then
    forget_job(jobs, key, runs, id, events)
  end
end
