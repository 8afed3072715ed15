-- Commit what a scheduler proposed for due jobs: fire each one that is still as it was read, and move it to its next time.
-- The proposals come in groups of jobs that share plan and due time. A job that has to wait for room or for a permit goes to
-- the bucket for that.
-- Safe because: a job is fired only while its `next_run_at`, plan and state are those that the proposal was made on, and
-- firing moves `next_run_at` in the same script. Proposing twice fires once; an old grant changes nothing.
-- KEYS: fence buckets bucket gates ledger
-- ARGV: token holder bucket_name job_prefix due_prefix ready_prefix runs_prefix max_ready history_limit ledger_limit groups...
--       a group is due_at nominal_at next_at next_bucket skipped size, then `size` members `<plan>|<job id>`
--       nominal_at '' fires nothing; next_at '' means that the plan has no further time; skipped is records, a line each, or ''
-- Reply: {fired, overlap, held, stale}: how many jobs fired or will after an older execution, were skipped for overlap, wait
--       for room or a permit, were not as read
-- Error: FENCED
--@include lib/fence
--@include lib/verdict
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
local runs_prefix = ARGV[7]
local max_ready = tonumber(ARGV[8])
local history_limit = tonumber(ARGV[9])
local ledger_limit = tonumber(ARGV[10])
local group = 11

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end

redis.call('EXISTS', buckets, bucket, ledger, due_prefix .. '@')
local at = { job_prefix = job_prefix, due_prefix = due_prefix, ready_prefix = ready_prefix, runs_prefix = runs_prefix,
  buckets = buckets, gates = read_gates(gates), max_ready = max_ready, room = {}, waiting = { [bucket_name] = false },
  history_limit = history_limit }
local no_rules, rows = {}, {}
local count = { fired = 0, queued = 0, replaced = 0, advanced = 0, overlap = 0, held = 0, stale = 0 }
while group <= #ARGV do
  local due_at, nominal_at, next_at, next_bucket, skipped, size = unpack(ARGV, group, group + 5)
  redis.call('EXISTS', due_prefix .. next_bucket)
  for n = group + 6, group + 5 + size do
    local member = ARGV[n]
    local bar = string.find(member, '|', 1, true)
    local id = string.sub(member, bar + 1)
    local job = redis.call('HMGET', job_prefix .. id, 'next_run_at', 'plan', 'state', 'x:' .. nominal_at, 'overlap',
      'live', 'queue', 'target', 'payload', 'retry', 'rules', 'group')
    local rules, older = job[11] and read_rules(job_prefix .. id) or no_rules, false
    local verdict = judge(job, rules, due_at, string.sub(member, 1, bar - 1), nominal_at)
    local held_in, lanes
    if verdict == 'stale' then
      member = left_over(bucket, member, due_at)
    else
      older = verdict == 'replaced' and touch_live(read_live(job_prefix .. id), id, buckets, due_prefix, job[7])
      held_in, lanes = find_place(at, verdict, member, job, older)
      if held_in then
        verdict = 'held'
        redis.call('EXISTS', due_prefix .. held_in)
      end
    end
    if skipped ~= '' or verdict == 'overlap' or verdict == 'replaced' then
      redis.call('EXISTS', runs_prefix .. id)
    end
    count[verdict] = count[verdict] + 1
    rows[#rows + 1] = { verdict, member, id, job, rules, older, due_at, nominal_at, next_at, next_bucket, skipped, lanes,
      held_in }
  end
  group = group + 6 + size
end

local moves, events = new_moves(bucket_name), {}
for _, row in ipairs(rows) do
  local verdict, member, id, job, rules, older, due_at, nominal_at, next_at, next_bucket, skipped, lanes, held_in = unpack(row, 1, 13)
  if verdict == 'stale' then
    move(moves, member, '')
  elseif verdict == 'held' then
    move(moves, member, held_in, due_at)
  elseif verdict == 'fired' and rules == no_rules and skipped == '' then
    fire_plainly(at, id, job, due_at, nominal_at, next_at, lanes, events)
    move(moves, member, next_bucket, next_at)
  else
    next_at = carry_out(verdict, at, id, job, rules, older, due_at, nominal_at, next_at, skipped, lanes, events)
    move(moves, member, next_at == '' and '' or next_bucket, next_at)
  end
end
make_moves(moves, buckets, due_prefix)
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return { count.fired + count.replaced + count.queued, count.overlap, count.held, count.stale }
