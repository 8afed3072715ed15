-- Delete a job with its history, its times and the attempts that nobody has started. A delivery that a consumer holds goes on.
-- Safe because: completing a delivery whose job is gone, or is another one of the same id, touches nothing but its entry. The
-- newest nominal time of what was live, or was run by hand, is noted for a minute: that of no job made anew is the same.
-- KEYS: job jobs runs buckets backfills dependents inputs gates ledger ran_at
-- ARGV: id version due_prefix ready_prefix ledger_limit
--       version is the one that must stand, or '' if any may
-- Reply: OK
-- Error: NOT_FOUND CONFLICT HAS_DEPENDENTS
-- Flags: allow-oom
--@include lib/gates
--@include lib/delivery
--@include lib/head
--@include lib/index
--@include lib/records
local job = KEYS[1]
local jobs = KEYS[2]
local runs = KEYS[3]
local buckets = KEYS[4]
local backfills = KEYS[5]
local dependents = KEYS[6]
local inputs = KEYS[7]
local gates = KEYS[8]
local ledger = KEYS[9]
local ran_at = KEYS[10]
local id = ARGV[1]
local version = ARGV[2]
local due_prefix = ARGV[3]
local ready_prefix = ARGV[4]
local ledger_limit = tonumber(ARGV[5])

-- More than the clocks of two callers are ever apart, and little enough for a clock that was far ahead to be forgotten.
local NOTED_MS = 60000

local text, known_version, ran_last_at = unpack(redis.call('HMGET', job, 'head', 'version', 'ran_at'), 1, 3)
local head = read_head(text)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if version ~= '' and version ~= (known_version or '1') then
  return redis.error_reply('CONFLICT job ' .. id .. ' has changed since it was read; read it again')
end
if redis.call('EXISTS', dependents) == 1 then
  local first = redis.call('ZRANGE', dependents, 0, 0)[1]
  return redis.error_reply('HAS_DEPENDENTS job ' .. first .. ' depends on job ' .. id .. '; detach or cascade')
end
local queue = head.queue
local ready = ready_prefix .. queue
local is_read = has_group(ready)
local limits = read_gates(gates)
local waiting, offered, last = {}, {}, tonumber(ran_last_at or 0)
if head.state == 'active' and head.next_run_at ~= '' then
  waiting[1] = { head.next_run_at, head.plan .. '|' .. id }
end
for _, execution in ipairs(read_live(job)) do
  local nominal_at, where, _, at, _, lanes = unpack(execution, 1, 6)
  let_out(limits, lanes)
  last = math.max(last, tonumber(nominal_at))
  if where ~= 'ready' then
    waiting[#waiting + 1] = { at, id .. '@' .. nominal_at }
  elseif not is_read or #redis.call('XPENDING', ready, 'workers', at, at, 1) == 0 then
    offered[#offered + 1] = at
  end
end
for _, due in ipairs(waiting) do
  touch_due(buckets, due_prefix, due[1], queue, due[2])
end
redis.call('EXISTS', jobs, runs, inputs, backfills, ledger)
touch_forgotten(jobs, job)
last = last > tonumber(redis.call('GET', ran_at) or 0) and last

for _, due in ipairs(waiting) do
  forget_due(buckets, due_prefix, due[1], queue, due[2])
end
for _, entry in ipairs(offered) do
  redis.call('XDEL', ready, entry)
end
local events = {}
forget_job(jobs, job, runs, id, events)
redis.call('DEL', inputs)
if last then
  redis.call('SET', ran_at, string.format('%.0f', last), 'PX', NOTED_MS)
end
redis.call('SREM', backfills, id)
save_gates(gates, limits)
add_events(ledger, ledger_limit, events)
return redis.status_reply('OK')
