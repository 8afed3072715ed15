-- Take over deliveries whose lease ran out, and end as poison those that were delivered too often.
-- Looks at `limit` pending entries from `cursor` on, so that a long list of healthy ones costs a bounded time, and takes
-- over `room` of them at the most.
-- Safe because: claiming raises the delivery count, so whatever the old holder still sends is stale.
-- KEYS: ready jobs buckets dead ledger
-- ARGV: consumer now lease_ms max_deliveries cursor limit room job_prefix due_prefix runs_prefix history_limit ledger_limit
--       cursor is '-' to begin with, then what the last reply gave
-- Reply: {next cursor or '', poisoned, {entry_id, deliveries, {field, value, …}}, …}
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
local lease_ms = tonumber(ARGV[3])
local max_deliveries = tonumber(ARGV[4])
local cursor = ARGV[5]
local limit = tonumber(ARGV[6])
local room = tonumber(ARGV[7])
local job_prefix = ARGV[8]
local due_prefix = ARGV[9]
local runs_prefix = ARGV[10]
local history_limit = tonumber(ARGV[11])
local ledger_limit = tonumber(ARGV[12])

redis.call('EXISTS', jobs, buckets, dead, ledger)
local pending = redis.call('XPENDING', ready, 'workers', cursor, '+', limit)
local reply = { '', 0 }
local stale = {}
for place, delivery in ipairs(pending) do
  local entry, idle_ms, deliveries = delivery[1], delivery[3], delivery[4]
  if #stale == room then
    break
  end
  reply[1] = (place == limit or place < #pending) and '(' .. entry or ''
  if idle_ms >= lease_ms then
    local found = redis.call('XRANGE', ready, entry, entry)[1]
    local fields = {}
    for n = 1, found and #found[2] or 0, 2 do
      fields[found[2][n]] = found[2][n + 1]
    end
    local row = { entry = entry, deliveries = deliveries, values = found and found[2], attempt = fields.attempt }
    if found then
      row.execution_id = fields.execution_id
      row.id, row.nominal_at = split_execution_id(fields.execution_id)
      row.key = job_prefix .. row.id
      row.live, row.rules = unpack(redis.call('HMGET', row.key, 'x:' .. row.nominal_at, 'rules'), 1, 2)
      touch_follow_up(row.key, buckets, due_prefix, now)
      redis.call('EXISTS', runs_prefix .. row.id)
    end
    stale[#stale + 1] = row
  end
end

local events = {}
for _, row in ipairs(stale) do
  if not row.values then
    drop_entry(ready, row.entry)
  elseif row.deliveries < max_deliveries then
    redis.call('XCLAIM', ready, 'workers', consumer, lease_ms, row.entry)
    reply[#reply + 1] = { row.entry, row.deliveries + 1, row.values }
  else
    local record = '[' .. row.nominal_at .. ',"dead",' .. row.attempt .. ',' .. row.deliveries .. ',"' .. consumer ..
      '",' .. now - row.nominal_at .. ',0,null,"poison: delivered ' .. row.deliveries .. ' times and never completed"]'
    drop_entry(ready, row.entry)
    events[#events + 1] = '["dead","' .. row.execution_id .. '",' .. record .. ']'
    reply[2] = reply[2] + 1
    if row.live == 'ready:' .. row.attempt .. ':' .. row.entry then
      add_record(runs_prefix .. row.id, history_limit, record)
      local is_seen = end_execution(row.key, row.nominal_at, 'dead')
      redis.call('ZADD', dead, now, row.execution_id)
      if row.rules and is_seen then
        follow_up(row.key, runs_prefix .. row.id, jobs, buckets, due_prefix, row.id, 'dead', now, events)
      end
    end
  end
end
add_events(ledger, ledger_limit, events)
return reply
