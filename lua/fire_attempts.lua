-- Offer attempts whose time in the due index has come: retries, first attempts that waited for room or a permit, and those
-- that have waited in vain, for their target's report or for upstream jobs.
-- Safe because: an attempt is offered only while the job's record says that this attempt is due at this time.
-- KEYS: fence buckets bucket gates ledger
-- ARGV: token holder bucket_name job_prefix due_prefix ready_prefix inputs_prefix max_ready ledger_limit attempts...
--       an attempt is due_at execution_id
-- Reply: {offered, held, stale}
-- Error: FENCED
--@include lib/fence
--@include lib/gates
--@include lib/head
--@include lib/records
local fence = KEYS[1]
local buckets = KEYS[2]
local bucket = KEYS[3]
local gates = KEYS[4]
local ledger = KEYS[5]
local token = ARGV[1]
local holder = ARGV[2]
local bucket_name = ARGV[3]
local job_prefix = ARGV[4]
local due_prefix = ARGV[5]
local ready_prefix = ARGV[6]
local inputs_prefix = ARGV[7]
local max_ready = tonumber(ARGV[8])
local ledger_limit = tonumber(ARGV[9])
local attempts = 10

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end

redis.call('EXISTS', buckets, bucket, ledger, due_prefix .. '@')
local at = { ready_prefix = ready_prefix, max_ready = max_ready, gates = read_gates(gates), room = {} }
local waiting = { [bucket_name] = false }
local rows, count = {}, { offered = 0, held = 0, stale = 0 }
for n = attempts, #ARGV, 2 do
  local due_at, execution_id = ARGV[n], ARGV[n + 1]
  local id, nominal_at = split_execution_id(execution_id)
  local job = redis.call('HMGET', job_prefix .. id, 'x:' .. nominal_at, 'head', 'target', 'payload', 'expires_after_ms', 'group',
    'upstreams')
  local head = read_head(job[2])
  local where, attempt, place, since, lanes = read_place(job[1])
  local member, verdict, held_in = execution_id, 'stale', nil
  if place == due_at and (where == 'async' or where == 'gated') then
    verdict = 'offered'
  elseif place == due_at and where == 'due' then
    held_in = waits_in(waiting, due_prefix, '@' .. head.queue, member)
    if not held_in then
      held_in, lanes = let_in(at, head.queue, job[3], job[6])
    end
    verdict = held_in and 'held' or 'offered'
    redis.call('EXISTS', due_prefix .. (held_in or ''))
  else
    member = left_over(bucket, member, due_at)
  end
  count[verdict] = count[verdict] + 1
  rows[#rows + 1] = { verdict, member, id, nominal_at, job, head, due_at, attempt, since, lanes, held_in,
    where == 'async' and 1 or where == 'gated' and where }
end

local moves, events = new_moves(bucket_name), {}
for _, row in ipairs(rows) do
  local verdict, member, id, nominal_at, job, head, due_at, attempt, since, lanes, held_in, has_lapsed = unpack(row, 1, 12)
  if verdict == 'held' then
    move(moves, member, held_in, due_at)
  else
    move(moves, member, '')
    if verdict == 'offered' then
      local expires_at = not has_lapsed and expiry(nominal_at, attempt, job[5]) or ''
      local live = offer(ready_prefix .. head.queue, member, attempt, due_at, expires_at, job[3], job[4], head.retry, since, lanes,
        has_lapsed, job[7] and redis.call('HGET', inputs_prefix .. id, nominal_at))
      redis.call('HSET', job_prefix .. id, 'x:' .. nominal_at, live)
      events[#events + 1] = offered_event(member, attempt, due_at, head.queue)
    end
  end
end
make_moves(moves, buckets, due_prefix)
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return { count.offered, count.held, count.stale }
