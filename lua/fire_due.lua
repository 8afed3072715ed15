-- Commit what a scheduler proposed for due jobs: fire each one that is still as it was read, and move it to its next time.
-- The proposals come in groups of jobs that share plan and due time. A job that has to wait for room or for a permit goes to
-- the bucket for that.
-- Safe because: a job is fired only while its `next_run_at`, plan and state are those that the proposal was made on, and
-- firing moves `next_run_at` in the same script. Proposing twice fires once; an old grant changes nothing.
-- KEYS: fence buckets bucket awaiting gates outbox ledger
-- ARGV: token holder bucket_name job_prefix due_prefix ready_prefix runs_prefix arrivals_prefix inputs_prefix max_ready history_limit ledger_limit groups...
--       a group is due_at nominal_at next_at next_bucket skipped size, then `size` members `<plan>|<job id>`
--       nominal_at '' fires nothing; next_at '' means that the plan has no further time; skipped is records, a line each, or ''
-- Reply: {fired, overlap, held, stale}: how many jobs fired or will after an older execution, were skipped for overlap, wait
--       for room or a permit, were not as read
-- Error: FENCED
--@include lib/fence
--@include lib/verdict
--@include lib/starts
local fence = KEYS[1]
local buckets = KEYS[2]
local bucket = KEYS[3]
local awaiting = KEYS[4]
local gates = KEYS[5]
local outbox = KEYS[6]
local ledger = KEYS[7]
local token = ARGV[1]
local holder = ARGV[2]
local bucket_name = ARGV[3]
local job_prefix = ARGV[4]
local due_prefix = ARGV[5]
local ready_prefix = ARGV[6]
local runs_prefix = ARGV[7]
local arrivals_prefix = ARGV[8]
local inputs_prefix = ARGV[9]
local max_ready = tonumber(ARGV[10])
local history_limit = tonumber(ARGV[11])
local ledger_limit = tonumber(ARGV[12])
local group = 13

local refusal = refuse_old_grant(fence, token, holder)
if refusal then
  return refusal
end

redis.call('EXISTS', buckets, bucket, awaiting, outbox, ledger, due_prefix .. '@')
local at = { job_prefix = job_prefix, due_prefix = due_prefix, ready_prefix = ready_prefix, runs_prefix = runs_prefix,
  bucket = bucket, buckets = buckets, outbox = outbox, gates = read_gates(gates), max_ready = max_ready, room = {}, waiting = { [bucket_name] = false },
  awaiting = awaiting, arrivals_prefix = arrivals_prefix, inputs_prefix = inputs_prefix, history_limit = history_limit }
local rows, filled, plain = {}, 0, {}
local count = { plain = 0, fired = 0, queued = 0, replaced = 0, gated = 0, advanced = 0, overlap = 0, held = 0, stale = 0 }
while group <= #ARGV do
  local known_at, nominal_at, next_at, next_bucket, skipped, size = unpack(ARGV, group, group + 5)
  local plan = string.match(ARGV[group + 6], '^[^|]*')
  local proposal = { plan = plan, known_at = known_at, due_at = clock_time_of(known_at, nominal_at), nominal_at = nominal_at,
    next_at = next_at, next_bucket = next_bucket, skipped = skipped, live = 'x:' .. nominal_at }
  local plain_heads = judge_plain_heads(at, proposal, plain)
  redis.call('EXISTS', due_prefix .. next_bucket)
  for n = group + 6, group + 5 + size do
    -- Six values a job in one table: a table for each would cost as much as reading it.
    local verdict, member, id = 'plain', ARGV[n], string.sub(ARGV[n], #plan + 2)
    local job = redis.call('HMGET', job_prefix .. id, 'head', 'target', 'payload')
    local more = plain_heads[job[1]]
    if not more or not take_room(at.room, more.ready, max_ready) then
      verdict, member, job, more = read_due(at, proposal, member, id, job)
    end
    rows[filled + 1], rows[filled + 2], rows[filled + 3] = verdict, member or false, id
    rows[filled + 4], rows[filled + 5], rows[filled + 6] = job or false, proposal, more
    filled = filled + 6
    count[verdict] = count[verdict] + 1
  end
  group = group + 6 + size
end

local moves, events = new_moves(bucket_name), {}
for n = 1, filled, 6 do
  local verdict, member, id, job, proposal, more = unpack(rows, n, n + 5)
  if verdict == 'plain' then
    fire_plain(at, id, job, proposal, more)
    move(moves, member, proposal.next_bucket, proposal.next_at)
  elseif verdict == 'stale' then
    move(moves, member or nil, '')
  elseif verdict == 'held' then
    move(moves, member, more.held_in, proposal.known_at)
  else
    local next_at = carry_out(at, verdict, id, job, proposal, more, events)
    move(moves, member, next_at == '' and '' or proposal.next_bucket, next_at)
  end
end
tell_plain(plain, events)
make_moves(moves, buckets, due_prefix)
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return { count.plain + count.fired + count.replaced + count.queued + count.gated, count.overlap, count.held, count.stale }
