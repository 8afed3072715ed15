-- Give a job another definition. Its history, its live executions and, while its times stay the same, its place in the due
-- index stay.
-- Safe because: the new times were worked out on the version that was read, and count only while that still stands; the
-- index changes in the same step, so no old time fires under the new definition.
-- KEYS: job jobs plans runs buckets ledger
-- ARGV: id version plan_id canonical next_run_at skipped due_prefix history_limit ledger_limit definition...
--       version is the one that was read; next_run_at '' means no time to come; skipped is a record of times that were due
--       and go unfired, or ''; definition is the 18 values of lib/job
-- Reply: the new version
-- Error: NOT_FOUND CONFLICT WRONG_STATE
--@include lib/due
--@include lib/job
--@include lib/index
--@include lib/records
local job = KEYS[1]
local jobs = KEYS[2]
local plans = KEYS[3]
local runs = KEYS[4]
local buckets = KEYS[5]
local ledger = KEYS[6]
local id = ARGV[1]
local version = ARGV[2]
local plan_id = ARGV[3]
local canonical = ARGV[4]
local next_run_at = ARGV[5]
local skipped = ARGV[6]
local due_prefix = ARGV[7]
local history_limit = tonumber(ARGV[8])
local ledger_limit = tonumber(ARGV[9])
local definition = 10

local known = redis.call('HMGET', job, 'head', 'version', 'backfill_live', 'queued', 'upstreams', 'dependents', 'group', 'tags')
local head, known_version, backfill_live, queued, upstreams, dependents, group, tags = read_head(known[1]), unpack(known, 2, 8)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if (known_version or '1') .. '/' .. head.next_run_at ~= version then
  return redis.error_reply('CONFLICT job ' .. id .. ' has changed since it was read; read it again')
end
local known_canonical = redis.call('HGET', plans, plan_id)
if known_canonical and known_canonical ~= canonical then
  return redis.error_reply('CONFLICT plan id ' .. plan_id .. ' stands for another plan already')
end
if ARGV[definition] ~= head.queue and head.live + tonumber(backfill_live or 0) > 0 then
  return redis.error_reply('WRONG_STATE job ' .. id .. ' has live executions; its queue can change when they have ended')
end
local member = head.plan .. '|' .. id
touch_due(buckets, due_prefix, head.next_run_at, head.queue, member)
touch_due(buckets, due_prefix, next_run_at, ARGV[definition])
redis.call('EXISTS', ledger, runs)
local new_group, new_tags = ARGV[definition + 12], ARGV[definition + 17]
touch_index(jobs, group, tags)
touch_index(jobs, new_group, new_tags)

if head.state == 'active' and head.next_run_at ~= '' then
  forget_due(buckets, due_prefix, head.next_run_at, head.queue, member)
end
local state = state_of(next_run_at, definition)
if head.state == 'paused' and state ~= 'completed' then
  state = 'paused'
end
redis.call('HSET', plans, plan_id, canonical)
drop_from_index(jobs, job, id, group, tags)
local new_head = define_head(definition, state, plan_id, next_run_at, head.live)
-- The end of what is live starts what waits, and is told, and a backfill's executions are seen, whatever the new policy is.
new_head.rules = new_head.rules or queued or dependents or upstreams or backfill_live
local fields, absent = defined_fields(definition)
redis.call('HSET', job, 'head', head_of(new_head), unpack(fields))
if #absent > 0 then
  redis.call('HDEL', job, unpack(absent))
end
add_to_index(jobs, id, new_group, new_tags, #ARGV[definition + 3])
if state == 'active' and next_run_at ~= '' then
  add_due(buckets, due_prefix, bucket_of(next_run_at), { next_run_at, plan_id .. '|' .. id })
end
local events = { '["replaced","' .. id .. '"]' }
if skipped ~= '' then
  add_skipped(runs, history_limit, events, id, skipped)
end
add_events(ledger, ledger_limit, events)
local new_version = (tonumber(known_version or 1) + 1)
redis.call('HSET', job, 'version', new_version)
return new_version
