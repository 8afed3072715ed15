-- Backfills. The newest one of a job is in the job's hash, in fields `backfill…`; what it started has a field `b:<nominal>`.
--@include lib/execution
--@include lib/head
--@include lib/index

-- Whether a nominal time is live, waits for an older execution, or has not been fired yet: not for a backfill to start.
local function is_taken(job, nominal_at, next_run_at, queued)
  return redis.call('HEXISTS', job, 'x:' .. nominal_at) == 1
    or string.find(' ' .. (queued or '') .. ' ', ' ' .. nominal_at .. ' ', 1, true)
    or next_run_at ~= '' and tonumber(nominal_at) >= tonumber(next_run_at)
end

-- Put an attempt at a time into the ready stream, and mark it; the letter of an earlier one is done with. For the retry policy
-- one that ended before begins anew. `work` is target, payload and retry of the job.
local function start_time(job, ready, dead, letter, execution_id, attempt, now, work, lanes)
  local _, nominal_at = split_execution_id(execution_id)
  local since = attempt ~= '1' and '.' .. attempt - 1 or ''
  local where = offer(ready, execution_id, attempt, now, '', work[1], work[2], work[3], since, lanes)
  redis.call('HSET', job, 'x:' .. nominal_at, where, 'b:' .. nominal_at, 1)
  redis.call('ZREM', dead, execution_id)
  redis.call('DEL', letter)
end

-- End a backfill of which nothing is left, and delete its job if that has waited for it; say so in `events`.
local function end_backfill(job, jobs, runs, backfills, id, events)
  local known = redis.call('HMGET', job, 'backfill_state', 'queued', 'delete_after_completion')
  local backfill_state, queued, is_deleted = unpack(known, 1, 3)
  local head = head_at(job)
  redis.call('HSET', job, 'backfill_state', backfill_state == 'cancelling' and 'cancelled' or 'done')
  redis.call('SREM', backfills, id)
  events[#events + 1] = '["backfill_ended","' .. id .. '"]'
  if is_deleted and head.state == 'completed' and head.live == 0 and not queued then
    forget_job(jobs, job, runs, id, events)
  end
end
