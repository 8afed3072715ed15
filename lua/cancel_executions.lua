-- End live executions of one job, wherever they are: in a queue, waiting for a retry, or running. Whoever runs one has lost it
-- and learns so at its next heartbeat.
-- Safe because: its entry and its field go in the same step as its record is written, so no outcome can follow.
-- KEYS: job jobs runs buckets inputs gates outbox ledger
-- ARGV: id now due_prefix ready_prefix history_limit ledger_limit note limit nominal_times...
--       no nominal times: all that wait for an older execution, and `limit` live ones; note is JSON text, who and why
-- Reply: the nominal times that were cancelled
-- Error: NOT_FOUND
-- Flags: allow-oom
--@include lib/after
--@include lib/rules
--@include lib/outbox
local job = KEYS[1]
local jobs = KEYS[2]
local runs = KEYS[3]
local buckets = KEYS[4]
local inputs = KEYS[5]
local gates = KEYS[6]
local outbox = KEYS[7]
local ledger = KEYS[8]
local id = ARGV[1]
local now = ARGV[2]
local due_prefix = ARGV[3]
local ready_prefix = ARGV[4]
local history_limit = tonumber(ARGV[5])
local ledger_limit = tonumber(ARGV[6])
local note = ARGV[7]
local limit = tonumber(ARGV[8])
local nominal_times = 9

local text, queued, has_dependents = unpack(redis.call('HMGET', job, 'head', 'queued', 'dependents'), 1, 3)
local head = read_head(text)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
local wanted, rest, ending, reply = nil, {}, {}, {}
for n = nominal_times, #ARGV do
  wanted = wanted or {}
  wanted[ARGV[n]] = true
end
for nominal_at in string.gmatch(queued or '', '%d+') do
  local list = (not wanted or wanted[nominal_at]) and reply or rest
  list[#list + 1] = nominal_at
end
local waited = #reply
for _, execution in ipairs(read_live(job)) do
  local nominal_at, where, _, at = unpack(execution, 1, 4)
  if #ending < limit and (not wanted or wanted[nominal_at]) then
    if where ~= 'ready' then
      touch_due(buckets, due_prefix, at, head.queue, id .. '@' .. nominal_at)
    end
    ending[#ending + 1] = execution
  end
end
local limits, events = read_gates(gates), {}
local at = { ready_prefix = ready_prefix, buckets = buckets, due_prefix = due_prefix, gates = limits }
redis.call('EXISTS', jobs, runs, inputs, outbox, ledger, ready_prefix .. head.queue)
touch_follow_up(job, jobs, buckets, due_prefix, id, now)

local function record(nominal_at, attempt, since)
  local line = '[' .. nominal_at .. ',"cancelled",' .. attempt .. ',0,"",' .. now - nominal_at .. ',0,null,' .. note .. ']'
  add_record(runs, history_limit, line)
  events[#events + 1] = '["cancelled","' .. id .. '@' .. nominal_at .. '",' .. line .. ']'
  redis.call('HDEL', inputs, nominal_at)
  if has_dependents then
    tell_dependents(outbox, id, nominal_at, 'cancelled', id .. '@' .. nominal_at, '', is_again(since))
  end
end

if waited > 0 then
  redis.call('HSET', job, 'queued', table.concat(rest, ' '))
  if #rest == 0 then
    redis.call('HDEL', job, 'queued')
  end
end
for _, nominal_at in ipairs(reply) do
  record(nominal_at, 1)
end
local is_over = waited > 0
for _, execution in ipairs(ending) do
  local nominal_at, _, attempt, _, since = unpack(execution, 1, 5)
  withdraw(at, id, head.queue, execution)
  record(nominal_at, attempt, since)
  is_over = end_execution(job, nominal_at, 'cancelled') or is_over
  reply[#reply + 1] = nominal_at
end
if head.rules and is_over then
  follow_up(job, runs, jobs, buckets, due_prefix, id, 'cancelled', now, events)
end
save_gates(gates, limits)
add_events(ledger, ledger_limit, events)
return reply
