-- Dead letters: `dead` has the execution ids by time, and each has a hash with what is needed to look into it:
--   reason    exhausted, final, gone or poison
--   attempt   the last one
--   queue     the ready stream that it came from
--   target, payload, retry   as that attempt had them
--   attempts  the records of its attempts that its job's history held, newest first, a line each
--   born      when the job was created: another job of the same id does not run it

local function born(definition)
  return string.match(definition or '', '^%[(%d+)') or ''
end

-- Bury an execution whose last record is in the history already. `fields` are those of its entry.
local function bury(dead, letter, runs, history_limit, now, execution_id, nominal_at, attempt, reason, stream, fields, definition)
  local attempts, start = {}, '[' .. nominal_at .. ','
  for _, record in ipairs(redis.call('LRANGE', runs, 0, history_limit - 1)) do
    if string.sub(record, 1, #start) == start then
      attempts[#attempts + 1] = record
    end
  end
  redis.call('HSET', letter, 'reason', reason, 'attempt', attempt, 'queue', stream, 'target', fields.target, 'payload',
    fields.payload, 'retry', fields.retry or '', 'attempts', table.concat(attempts, '\n'), 'born', born(definition))
  redis.call('ZADD', dead, now, execution_id)
end
