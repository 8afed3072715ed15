-- Take over deliveries whose lease ran out, and end as poison those that were delivered too often.
-- Looks at `limit` pending entries from `cursor` on, so that a long list of healthy ones costs a bounded time, and takes
-- over `room` of them at the most.
-- Safe because: claiming raises the delivery count, so whatever the old holder still sends is stale.
-- KEYS: ready jobs buckets dead gates outbox ledger
-- ARGV: consumer now stream lease_ms max_deliveries cursor limit room job_prefix due_prefix runs_prefix letter_prefix inputs_prefix history_limit ledger_limit
--       cursor is '-' to begin with, then what the last reply gave
-- Reply: {next cursor or '', poisoned, {entry_id, deliveries, {field, value, …}}, …}
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
local lease_ms = tonumber(ARGV[4])
local max_deliveries = tonumber(ARGV[5])
local cursor = ARGV[6]
local limit = tonumber(ARGV[7])
local room = tonumber(ARGV[8])
local job_prefix = ARGV[9]
local due_prefix = ARGV[10]
local runs_prefix = ARGV[11]
local letter_prefix = ARGV[12]
local inputs_prefix = ARGV[13]
local history_limit = tonumber(ARGV[14])
local ledger_limit = tonumber(ARGV[15])

redis.call('EXISTS', jobs, buckets, dead, outbox, ledger)
local at = { jobs = jobs, buckets = buckets, dead = dead, now = now, job_prefix = job_prefix, due_prefix = due_prefix,
  runs_prefix = runs_prefix, letter_prefix = letter_prefix, inputs_prefix = inputs_prefix, outbox = outbox,
  history_limit = history_limit, gates = read_gates(gates), touched = {} }
local pending = redis.call('XPENDING', ready, 'workers', cursor, '+', limit)
local reply, stale = { '', 0 }, {}
for place, delivery in ipairs(pending) do
  local entry, idle_ms, deliveries = delivery[1], delivery[3], delivery[4]
  if #stale == room then
    break
  end
  reply[1] = (place == limit or place < #pending) and '(' .. entry or ''
  if idle_ms >= lease_ms then
    local fields, values = read_entry(ready, entry)
    local row = { entry = entry, deliveries = deliveries, fields = fields, values = values, stream = stream }
    if fields and deliveries >= max_deliveries then
      row.number, row.execution_id, row.outcome, row.detail = fields.attempt, fields.execution_id, 'dead', 'poison'
      row.id, row.nominal_at = split_execution_id(fields.execution_id)
      local field, head = unpack(redis.call('HMGET', job_prefix .. row.id, 'x:' .. row.nominal_at, 'head'), 1, 2)
      row.rules = has_rules(head)
      row.is_known = is_offered(field, row.number, entry)
      row.lanes = string.match(field or '', ';(.*)$')
      row.record = '[' .. row.nominal_at .. ',"dead",' .. row.number .. ',' .. deliveries .. ',"' .. consumer .. '",'
        .. now - row.nominal_at .. ',0,null,"poison: delivered ' .. deliveries .. ' times and never completed"]'
      touch_settle(at, row)
    end
    stale[#stale + 1] = row
  end
end

touch_gathered(at)
local events = {}
for _, row in ipairs(stale) do
  if not row.fields then
    drop_entry(ready, row.entry)
  elseif not row.outcome then
    redis.call('XCLAIM', ready, 'workers', consumer, lease_ms, row.entry)
    reply[#reply + 1] = { row.entry, row.deliveries + 1, row.values }
  else
    drop_entry(ready, row.entry)
    events[#events + 1] = '["dead","' .. row.execution_id .. '",' .. row.record .. ']'
    reply[2] = reply[2] + 1
    if row.is_known then
      settle(at, row, events)
    end
  end
end
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return reply
