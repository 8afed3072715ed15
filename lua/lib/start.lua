-- Start an execution now, outside the fire loop: straight into its queue or, where that is full, into the due index.
--@include lib/due
--@include lib/execution

-- `room` says whether the queue has a place (see take_room). Returns what the execution's field then holds.
local function start_now(room, buckets, due_prefix, ready, execution_id, now, queue, target, payload, retry)
  if room then
    return offer(ready, execution_id, '1', now, target, payload, retry)
  end
  add_due(buckets, due_prefix, '@' .. queue, { now, execution_id })
  return 'due:1:' .. now
end
