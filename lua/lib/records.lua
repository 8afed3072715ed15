-- A job's history (newest first, capped) and the shard's ledger (capped). Records are JSON arrays; codec.py packs and reads them.

local function add_record(runs, limit, record)
  if redis.call('LPUSH', runs, record) > limit then
    redis.call('LTRIM', runs, 0, limit - 1)
  end
end

-- Nominal times that were not fired: into the job's history, and an event for the ledger.
local function add_skipped(runs, limit, events, job_id, record)
  add_record(runs, limit, record)
  events[#events + 1] = '["skipped","' .. job_id .. '",' .. record .. ']'
end

-- One stream entry for all that one script did: an entry per event would cost as much as the work itself.
local function add_events(ledger, limit, events)
  if #events > 0 then
    redis.call('XADD', ledger, 'MAXLEN', '~', limit, '*', 'events', table.concat(events, '\n'))
  end
end
