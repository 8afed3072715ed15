-- Give back deliveries that were not started: into their ready stream again, as if nobody had read them, or into the index,
-- to wait there for a permit.
-- Safe because: only who holds a delivery gives it back, and the attempt moves with the job's record of it in one step.
-- KEYS: ready buckets gates
-- ARGV: consumer job_prefix due_prefix bucket deliveries...
--       bucket is that of the lane to wait for, or ''; a delivery is entry_id deliveries execution_id attempt
-- Reply: {1 or 0, …} for each: given back, or somebody else's by now
-- Error: none
-- Flags: allow-oom
--@include lib/gates
--@include lib/delivery
local ready = KEYS[1]
local buckets = KEYS[2]
local gates = KEYS[3]
local consumer = ARGV[1]
local job_prefix = ARGV[2]
local due_prefix = ARGV[3]
local bucket = ARGV[4]
local deliveries = 5

redis.call('EXISTS', buckets, due_prefix .. bucket, due_prefix .. '@')
local is_read, limits, rows, reply, seen = has_group(ready), read_gates(gates), {}, {}, {}
for n = deliveries, #ARGV, 4 do
  local entry, count, execution_id, attempt = unpack(ARGV, n, n + 3)
  local answer = 0
  if is_read and not seen[entry] and holds(ready, entry, consumer, count) and is_entry_of(ready, entry, execution_id, attempt) then
    local id, nominal_at = split_execution_id(execution_id)
    local field = redis.call('HGET', job_prefix .. id, 'x:' .. nominal_at)
    rows[#rows + 1] = { entry, execution_id, job_prefix .. id, 'x:' .. nominal_at, field, is_offered(field, attempt, entry) }
    answer, seen[entry] = 1, true
  end
  reply[#reply + 1] = answer
end

for _, row in ipairs(rows) do
  local entry, execution_id, job, name, field, is_known = unpack(row, 1, 6)
  local fields, values = read_entry(ready, entry)
  drop_entry(ready, entry)
  -- Of a job that is gone nothing is started any more.
  if is_known then
    local _, attempt, _, since, lanes = read_place(field)
    -- One whose target fell silent is only to be ended: that takes no permit.
    if bucket == '' or fields.lapsed then
      local again = redis.call('XADD', ready, '*', unpack(values))
      redis.call('HSET', job, name, place_of('ready', attempt, again, since, lanes))
    else
      let_out(limits, lanes)
      redis.call('HSET', job, name, place_of('due', attempt, fields.due_at, since))
      add_due(buckets, due_prefix, bucket, { fields.due_at, execution_id })
    end
  end
end
save_gates(gates, limits)
return reply
