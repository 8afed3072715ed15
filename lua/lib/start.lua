-- Start an execution now, outside the fire loop: straight into its queue or, where it has to wait, into the due index.
--@include lib/gates

-- `held_in` and `lanes` are the answer of let_in, `work` is target, payload, retry and expires_after_ms of the job. Returns
-- what the execution's field then holds.
local function start_now(held_in, lanes, buckets, due_prefix, ready, execution_id, now, work)
  if not held_in then
    return offer(ready, execution_id, '1', now, expiry(now, '1', work[4]), work[1], work[2], work[3], '', lanes)
  end
  add_due(buckets, due_prefix, held_in, { now, execution_id })
  return 'due:1:' .. now
end
