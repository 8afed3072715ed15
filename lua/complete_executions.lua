-- Record how attempts ended: history, retry or dead letter, ledger, and the entry's end, in one step for each.
-- Safe because: only the delivery that holds the pending entry (same consumer, same delivery count) records an outcome. Sent
-- again with the same proof and outcome it is answered as done already; everybody else is told so and changes nothing.
-- KEYS: ready jobs buckets dead ledger
-- ARGV: consumer now job_prefix due_prefix runs_prefix history_limit ledger_limit outcomes...
--       an outcome is entry_id deliveries execution_id attempt outcome retry_at record
--       outcome is succeeded, failed (again at retry_at), dead, or skipped (not started); retry_at is '' unless failed
-- Reply: {'done' | 'already' | 'stale', …} for each
-- Error: none
-- Flags: allow-oom
--@include lib/after
--@include lib/execution
--@include lib/delivery
--@include lib/records
local ready = KEYS[1]
local jobs = KEYS[2]
local buckets = KEYS[3]
local dead = KEYS[4]
local ledger = KEYS[5]
local consumer = ARGV[1]
local now = ARGV[2]
local job_prefix = ARGV[3]
local due_prefix = ARGV[4]
local runs_prefix = ARGV[5]
local history_limit = tonumber(ARGV[6])
local ledger_limit = tonumber(ARGV[7])
local outcomes = 8

-- Whether the newest records hold this outcome, recorded under the same proof.
local function is_recorded(runs, nominal_at, outcome, attempt, deliveries, full)
  local start = '[' .. nominal_at .. ',"' .. outcome .. '",' .. attempt .. ',' .. deliveries .. ',"' .. consumer .. '",'
  for _, record in ipairs(redis.call('LRANGE', runs, 0, history_limit - 1)) do
    if record == full or string.sub(record, 1, #start) == start then
      return true
    end
  end
  return false
end

redis.call('EXISTS', jobs, buckets, dead, ledger)
local is_read = has_group(ready)
local reply, known, seen = {}, {}, {}
for n = outcomes, #ARGV, 7 do
  local entry, deliveries, execution_id, attempt, outcome, retry_at, record = unpack(ARGV, n, n + 6)
  local id, nominal_at = split_execution_id(execution_id)
  local answer = 'stale'
  if is_read and not seen[entry] and holds(ready, entry, consumer, deliveries) then
    answer, seen[entry] = 'done', true
    local live = redis.call('HMGET', job_prefix .. id, 'x:' .. nominal_at, 'rules')
    known[n] = live[1] == 'ready:' .. attempt .. ':' .. entry and (live[2] and 'with rules' or 'plain')
    if known[n] == 'with rules' then
      touch_follow_up(job_prefix .. id, buckets, due_prefix, now)
    elseif not known[n] and not is_entry_of(ready, entry, execution_id, attempt) then
      answer = 'stale'
    end
    redis.call('EXISTS', runs_prefix .. id, due_prefix .. (retry_at ~= '' and bucket_of(retry_at) or ''))
  elseif is_recorded(runs_prefix .. id, nominal_at, outcome, attempt, deliveries, record) then
    answer = 'already'
  end
  reply[#reply + 1] = answer
end

local events = {}
for n = outcomes, #ARGV, 7 do
  local entry, _, execution_id, attempt, outcome, retry_at, record = unpack(ARGV, n, n + 6)
  if reply[(n - outcomes) / 7 + 1] == 'done' then
    local id, nominal_at = split_execution_id(execution_id)
    drop_entry(ready, entry)
    local subject = outcome == 'skipped' and id or execution_id
    events[#events + 1] = '["' .. outcome .. '","' .. subject .. '",' .. record .. ']'
    if known[n] then
      add_record(runs_prefix .. id, history_limit, record)
      local is_seen = false
      if outcome == 'failed' then
        redis.call('HSET', job_prefix .. id, 'x:' .. nominal_at, 'due:' .. attempt + 1 .. ':' .. retry_at)
        add_due(buckets, due_prefix, bucket_of(retry_at), { retry_at, execution_id })
      else
        is_seen = end_execution(job_prefix .. id, nominal_at, outcome)
      end
      if outcome == 'dead' then
        redis.call('ZADD', dead, now, execution_id)
      end
      if known[n] == 'with rules' and is_seen then
        follow_up(job_prefix .. id, runs_prefix .. id, jobs, buckets, due_prefix, id, outcome, now, events)
      end
    end
  end
end
add_events(ledger, ledger_limit, events)
return reply
