-- Take a word from a target that runs an attempt by itself: it goes on, or how it ended.
-- Safe because: it is taken only for the attempt that is live; the attempt number in the signed URL is its proof. A target
-- may be quicker than the worker that called it: its word then ends the delivery, and what the worker sends is stale.
-- KEYS: job jobs buckets dead gates outbox ledger
-- ARGV: id nominal_at attempt now outcome detail since record result job_prefix due_prefix ready_prefix runs_prefix letter_prefix inputs_prefix history_limit ledger_limit
--       outcome is `running`, with the time at which silence counts as failure as its detail, or as complete_executions gets
--       it, with detail, since and record
-- Reply: 'done' | 'already' | 'stale'
-- Error: none
-- Flags: allow-oom
--@include lib/settle
local job = KEYS[1]
local jobs = KEYS[2]
local buckets = KEYS[3]
local dead = KEYS[4]
local gates = KEYS[5]
local outbox = KEYS[6]
local ledger = KEYS[7]
local id = ARGV[1]
local nominal_at = ARGV[2]
local attempt = ARGV[3]
local now = ARGV[4]
local outcome = ARGV[5]
local detail = ARGV[6]
local since = ARGV[7]
local record = ARGV[8]
local result = ARGV[9]
local job_prefix = ARGV[10]
local due_prefix = ARGV[11]
local ready_prefix = ARGV[12]
local runs_prefix = ARGV[13]
local letter_prefix = ARGV[14]
local inputs_prefix = ARGV[15]
local history_limit = tonumber(ARGV[16])
local ledger_limit = tonumber(ARGV[17])

local known = redis.call('HMGET', job, 'x:' .. nominal_at, 'head', 'target', 'payload')
local where, number, place, began, lanes = read_place(known[1])
local execution_id, head, runs = id .. '@' .. nominal_at, read_head(known[2]), runs_prefix .. id
if number ~= attempt or where == 'due' then
  local is_done = is_recorded(runs, history_limit, nominal_at, outcome, attempt, '0', 'target', record)
  return is_done and 'already' or 'stale'
end
local queue = head.queue
local ready = ready_prefix .. queue
local row = { id = id, nominal_at = nominal_at, execution_id = execution_id, number = attempt, outcome = outcome,
  detail = detail, since = since ~= '' and since or began, record = record, lanes = lanes, rules = head.rules, stream = queue,
  fields = { target = known[3], payload = known[4], retry = head.retry }, result = result }
local at = { jobs = jobs, buckets = buckets, dead = dead, now = now, job_prefix = job_prefix, due_prefix = due_prefix,
  runs_prefix = runs_prefix, letter_prefix = letter_prefix, inputs_prefix = inputs_prefix, outbox = outbox,
  history_limit = history_limit, gates = read_gates(gates), touched = {} }
if where == 'async' then
  touch_due(buckets, due_prefix, place, queue, execution_id)
else
  redis.call('EXISTS', ready)
end
if outcome == 'running' then
  row.outcome = 'accepted'
end
touch_settle(at, row)
touch_gathered(at)
redis.call('EXISTS', jobs, dead, outbox, ledger)

if where == 'async' then
  forget_due(buckets, due_prefix, place, queue, execution_id)
elseif outcome == 'running' and not (read_entry(ready, place) or {}).lapsed then
  -- The worker has not told yet that the target goes on: its lease stands, and its own word will come.
  return 'done'
else
  drop_entry(ready, place)
end
local events = {}
settle(at, row, events)
if outcome ~= 'running' then
  table.insert(events, 1, '["' .. outcome .. '","' .. execution_id .. '",' .. record .. ']')
end
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return 'done'
