-- Commit what a scheduler proposed for due jobs: fire each one that is still as it was read, and move it to its next time.
-- The proposals come in groups of jobs that share plan and due time. A job whose queue is full waits in bucket `@<queue>`.
-- Safe because: a job is fired only while its `next_run_at`, plan and state are those that the proposal was made on, and
-- firing moves `next_run_at` in the same script. Proposing twice fires once; an old grant changes nothing.
-- KEYS: fence buckets bucket ledger
-- ARGV: token holder bucket_name job_prefix due_prefix ready_prefix runs_prefix max_ready history_limit ledger_limit groups...
--       a group is due_at nominal_at next_at next_bucket skipped size, then `size` members `<plan>|<job id>`
--       nominal_at '' fires nothing; next_at '' means that the plan has no further time; skipped is a record or ''
-- Reply: {fired, overlap, held, stale}: how many jobs fired, were skipped for overlap, wait for room, were not as read
-- Error: FENCED
--@include lib/fence
--@include lib/due
--@include lib/execution
--@include lib/records
--@include lib/verdict
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
local runs_prefix = ARGV[7]
local max_ready = tonumber(ARGV[8])
local history_limit = tonumber(ARGV[9])
local ledger_limit = tonumber(ARGV[10])
local group = 11

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end

redis.call('EXISTS', buckets, bucket, ledger)
local waiting = { [bucket_name] = false }
local rows, room, count = {}, {}, { fired = 0, advanced = 0, overlap = 0, held = 0, stale = 0 }
while group <= #ARGV do
  local due_at, nominal_at, next_at, next_bucket, skipped, size = unpack(ARGV, group, group + 5)
  redis.call('EXISTS', due_prefix .. next_bucket)
  for n = group + 6, group + 5 + size do
    local member = ARGV[n]
    local bar = string.find(member, '|', 1, true)
    local id = string.sub(member, bar + 1)
    local job = redis.call('HMGET', job_prefix .. id, 'next_run_at', 'plan', 'state', 'x:' .. nominal_at, 'overlap',
      'live', 'queue', 'target', 'payload', 'retry')
    local verdict = judge(job, due_at, string.sub(member, 1, bar - 1), nominal_at)
    if verdict == 'stale' then
      -- A member that its job does not know is left over and goes, unless it has another time by now.
      member = tonumber(redis.call('ZSCORE', bucket, member)) == tonumber(due_at) and member or nil
    elseif is_waiting(waiting, due_prefix, '@' .. job[7], member)
      or verdict == 'fired' and not take_room(room, ready_prefix .. job[7], max_ready) then
      verdict = 'held'
    end
    if skipped ~= '' or verdict == 'overlap' then
      redis.call('EXISTS', runs_prefix .. id)
    end
    count[verdict] = count[verdict] + 1
    rows[#rows + 1] = { verdict, member, id, job, due_at, nominal_at, next_at, next_bucket, skipped }
  end
  group = group + 6 + size
end

local moves, events = new_moves(bucket_name), {}
for _, row in ipairs(rows) do
  local verdict, member, id, job, due_at, nominal_at, next_at, next_bucket, skipped = unpack(row, 1, 9)
  local runs, key, state = runs_prefix .. id, job_prefix .. id, next_at == '' and 'completed' or 'active'
  if verdict == 'stale' then
    move(moves, member, '')
  elseif verdict == 'held' then
    move(moves, member, '@' .. job[7], due_at)
  else
    move(moves, member, next_bucket, next_at)
    if skipped ~= '' then
      add_skipped(runs, history_limit, events, id, skipped)
    end
    if verdict == 'overlap' then
      add_skipped(runs, history_limit, events, id, '[' .. nominal_at .. ',"skipped",' .. nominal_at .. ',1,1,"overlap"]')
    end
    if verdict ~= 'fired' then
      redis.call('HSET', key, 'next_run_at', next_at, 'state', state)
    else
      local execution_id = id .. '@' .. nominal_at
      local live = offer(ready_prefix .. job[7], execution_id, '1', due_at, job[8], job[9], job[10])
      redis.call('HSET', key, 'next_run_at', next_at, 'state', state, 'x:' .. nominal_at, live, 'live',
        tonumber(job[6] or 0) + 1)
      events[#events + 1] = offered_event(execution_id, 1, due_at, job[7])
    end
  end
end
make_moves(moves, buckets, due_prefix)
add_events(ledger, ledger_limit, events)
return { count.fired, count.overlap, count.held, count.stale }
