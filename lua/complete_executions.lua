-- Record how attempts ended: history, retry or dead letter, ledger, and the entry's end, in one step for each.
-- Safe because: only the delivery that holds the pending entry (same consumer, same delivery count) records an outcome. Sent
-- again with the same proof and outcome it is answered as done already; everybody else is told so and changes nothing.
-- KEYS: ready jobs buckets dead gates outbox ledger
-- ARGV: consumer now stream job_prefix due_prefix runs_prefix letter_prefix inputs_prefix history_limit ledger_limit outcomes...
--       an outcome is entry_id deliveries execution_id attempt outcome detail since record result
--       outcome and its detail: succeeded; failed and when to try again; dead and why (exhausted, final, gone); skipped, not
--       started; accepted by a target that will report the end, and when its silence counts as failure; else ''
--       result is, for succeeded: JSON for the jobs that depend on this one, or ''
--       since is, for failed and accepted: when the first attempt began, '.', attempts that do not count
-- Reply: {'done' | 'already' | 'stale', …} for each
-- Error: none
-- Flags: allow-oom
--@include lib/settle
local ready = KEYS[1]
local jobs = KEYS[2]
local buckets = KEYS[3]
local dead = KEYS[4]
local gates = KEYS[5]
local outbox = KEYS[6]
local ledger = KEYS[7]
local consumer = ARGV[1]
local now = ARGV[2]
local stream = ARGV[3]
local job_prefix = ARGV[4]
local due_prefix = ARGV[5]
local runs_prefix = ARGV[6]
local letter_prefix = ARGV[7]
local inputs_prefix = ARGV[8]
local history_limit = tonumber(ARGV[9])
local ledger_limit = tonumber(ARGV[10])
local outcomes = 11

redis.call('EXISTS', jobs, buckets, dead, outbox, ledger)
local at = { jobs = jobs, buckets = buckets, dead = dead, now = now, job_prefix = job_prefix, due_prefix = due_prefix,
  runs_prefix = runs_prefix, letter_prefix = letter_prefix, inputs_prefix = inputs_prefix, outbox = outbox,
  history_limit = history_limit, gates = read_gates(gates), touched = {} }
local is_read, count = has_group(ready), (#ARGV - outcomes + 1) / 9
-- What a consumer ends together it has often read together: one look finds most of it.
local held = is_read and count > 1 and held_between(ready, consumer, ARGV[outcomes], ARGV[#ARGV - 8], count) or {}
local reply, rows, plain, seen, jobs_seen = {}, {}, {}, {}, {}
for n = outcomes, #ARGV, 9 do
  local entry, deliveries, execution_id, attempt, outcome, detail, since, record, result = unpack(ARGV, n, n + 8)
  local id, nominal_at = split_execution_id(execution_id)
  local answer = 'stale'
  if is_read and not seen[entry] and (held[entry] == tonumber(deliveries) or holds(ready, entry, consumer, deliveries)) then
    local live = redis.call('HMGET', job_prefix .. id, 'x:' .. nominal_at, 'head')
    local is_known = is_offered(live[1], attempt, entry)
    if is_known and not jobs_seen[id] and is_plain_end(at, outcome, live[2]) then
      answer, seen[entry], jobs_seen[id] = 'done', true, true
      note_plain_end(at, plain, entry, id, nominal_at, execution_id, record, live[2])
    elseif is_known or is_entry_of(ready, entry, execution_id, attempt) then
      answer, seen[entry] = 'done', true
      local row = { entry = entry, is_known = is_known, id = id, nominal_at = nominal_at, execution_id = execution_id,
        number = attempt, outcome = outcome, detail = detail, since = since, record = record,
        rules = has_rules(live[2]), result = result }
      if is_known then
        row.stream, row.fields = stream, outcome == 'dead' and read_entry(ready, entry)
        row.lanes = at.gates and string.match(live[1], ';(.*)$')
        -- Of two attempts of a job the later one finds another head than it was.
        row.head, jobs_seen[id] = not jobs_seen[id] and live[2] or nil, true
        touch_settle(at, row)
      end
      rows[#rows + 1] = row
    end
  elseif is_recorded(runs_prefix .. id, history_limit, nominal_at, outcome, attempt, deliveries, consumer, record)
    or outcome == 'accepted' and is_promised(job_prefix .. id, nominal_at, attempt) then
    answer = 'already'
  end
  reply[#reply + 1] = answer
end

touch_gathered(at)
local events = {}
end_plainly(at, ready, plain, events)
for _, row in ipairs(rows) do
  drop_entry(ready, row.entry)
  local subject = row.outcome == 'skipped' and row.id or row.execution_id
  events[#events + 1] = '["' .. row.outcome .. '","' .. subject .. '",' .. row.record .. ']'
  if row.is_known then
    settle(at, row, events)
  end
end
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return reply
