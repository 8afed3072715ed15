-- Start an execution now, outside the fire loop: straight into its queue or, where that is full, into the due index.
--@include lib/due
--@include lib/execution

-- `room` says whether the queue has a place (see take_room), `work` is target, payload, retry and expires_after_ms of the
-- job. Returns what the execution's field then holds.
local function start_now(room, buckets, due_prefix, ready, execution_id, now, queue, work)
  if room then
    return offer(ready, execution_id, '1', now, expiry(now, '1', work[4]), work[1], work[2], work[3])
  end
  add_due(buckets, due_prefix, '@' .. queue, { now, execution_id })
  return 'due:1:' .. now
end
