-- Offer attempts whose time in the due index has come: retries, and first attempts that waited for room in their queue.
-- Safe because: an attempt is offered only while the job's record says that this attempt is due at this time.
-- KEYS: fence buckets bucket ledger
-- ARGV: token holder bucket_name job_prefix due_prefix ready_prefix max_ready ledger_limit attempts...
--       an attempt is due_at execution_id
-- Reply: {offered, held, stale}
-- Error: FENCED
--@include lib/fence
--@include lib/due
--@include lib/execution
--@include lib/records
local fence = KEYS[1]
local buckets = KEYS[2]
local bucket = KEYS[3]
local ledger = KEYS[4]
local token = ARGV[1]
local holder = ARGV[2]
local bucket_name = ARGV[3]
local job_prefix = ARGV[4]
local due_prefix = ARGV[5]
local ready_prefix = ARGV[6]
local max_ready = tonumber(ARGV[7])
local ledger_limit = tonumber(ARGV[8])
local attempts = 9

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end

redis.call('EXISTS', buckets, bucket, ledger)
local waiting = { [bucket_name] = false }
local rows, room, count = {}, {}, { offered = 0, held = 0, stale = 0 }
for n = attempts, #ARGV, 2 do
  local due_at, execution_id = ARGV[n], ARGV[n + 1]
  local id, nominal_at = split_execution_id(execution_id)
  local job = redis.call('HMGET', job_prefix .. id, 'x:' .. nominal_at, 'queue', 'target', 'payload', 'retry',
    'expires_after_ms')
  local attempt, at = string.match(job[1] or '', '^due:(%d+):(%d+)$')
  local member, verdict = execution_id, 'stale'
  if at == due_at then
    local is_held = is_waiting(waiting, due_prefix, '@' .. job[2], member)
    verdict = not is_held and take_room(room, ready_prefix .. job[2], max_ready) and 'offered' or 'held'
  elseif tonumber(redis.call('ZSCORE', bucket, member)) ~= tonumber(due_at) then
    member = nil
  end
  count[verdict] = count[verdict] + 1
  rows[#rows + 1] = { verdict, member, id, nominal_at, job, due_at, attempt }
end

local moves, events = new_moves(bucket_name), {}
for _, row in ipairs(rows) do
  local verdict, member, id, nominal_at, job, due_at, attempt = unpack(row, 1, 7)
  if verdict == 'held' then
    move(moves, member, '@' .. job[2], due_at)
  else
    move(moves, member, '')
    if verdict == 'offered' then
      local live = offer(ready_prefix .. job[2], member, attempt, due_at, expiry(nominal_at, attempt, job[6]), job[3],
        job[4], job[5])
      redis.call('HSET', job_prefix .. id, 'x:' .. nominal_at, live)
      events[#events + 1] = offered_event(member, attempt, due_at, job[2])
    end
  end
end
make_moves(moves, buckets, due_prefix)
add_events(ledger, ledger_limit, events)
return { count.offered, count.held, count.stale }
