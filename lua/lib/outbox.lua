-- The outbox of a shard: ends of executions on their way to dependent jobs. It is written in the step that ends the execution,
-- and an entry goes when all dependents have heard of it. An outcome is
--   succeeded, dead, cancelled    how it ended
--   skipped           it was not run: overlap, replaced, expired, upstream_late, or its job is paused or has no executions left
--   upstream_failed   it was not run because of what is above it; that may change when this is redriven
-- `again` is 1 for an execution that had ended before, and was redriven or run anew: who has had its time does not fire twice.
-- Ranges of times that a schedule left out (late, paused, edited, closed) are not told: they may be of any length, and jobs
-- that have such a time from one root all lack it.

local function tell_dependents(outbox, id, time, outcome, cause, result, again)
  redis.call('XADD', outbox, '*', 'job', id, 'time', time, 'outcome', outcome, 'cause', cause, 'result', result, 'again',
    again and 1 or '')
end

-- Tell that an execution will not be run.
local function tell_skipped(outbox, id, time)
  tell_dependents(outbox, id, time, 'skipped', id .. '@' .. time, '')
end

-- Whether an execution had ended before, by the `since` of its field: not all of its attempts count.
local function is_again(since)
  return string.find(since or '', '%.[1-9]')
end
