-- Tell dependent jobs of a shard how executions of upstream jobs ended, and start those that have waited for it.
-- Safe because: each job remembers how far it has heard of each source shard, so a repeat changes nothing; and whether all
-- are there is decided in the script that notes the last one, so two that come at once start one execution.
-- KEYS: jobs buckets gates awaiting outbox ledger
-- ARGV: now source job_prefix due_prefix ready_prefix runs_prefix arrivals_prefix inputs_prefix max_ready history_limit ledger_limit arrivals...
--       source is the number of the shard that tells; an arrival is entry upstream time outcome cause result again dependent,
--       each dependent once: entry is its place in the source's outbox, which the others are from too (lib/outbox); cause is
--       the execution that failed, '' if none did
-- Reply: {'fired' | 'noted' | 'blocked' | 'skipped' | 'already' | 'gone', …} for each
-- Error: none
--@include lib/dependents
local jobs = KEYS[1]
local buckets = KEYS[2]
local gates = KEYS[3]
local awaiting = KEYS[4]
local outbox = KEYS[5]
local ledger = KEYS[6]
local now = ARGV[1]
local source = ARGV[2]
local job_prefix = ARGV[3]
local due_prefix = ARGV[4]
local ready_prefix = ARGV[5]
local runs_prefix = ARGV[6]
local arrivals_prefix = ARGV[7]
local inputs_prefix = ARGV[8]
local max_ready = tonumber(ARGV[9])
local history_limit = tonumber(ARGV[10])
local ledger_limit = tonumber(ARGV[11])
local arrivals = 12

redis.call('EXISTS', jobs, buckets, awaiting, outbox, ledger, due_prefix .. '@')
local at = { now = now, job_prefix = job_prefix, due_prefix = due_prefix, ready_prefix = ready_prefix,
  runs_prefix = runs_prefix, arrivals_prefix = arrivals_prefix, inputs_prefix = inputs_prefix, max_ready = max_ready,
  history_limit = history_limit, buckets = buckets, awaiting = awaiting, outbox = outbox, gates = read_gates(gates),
  room = {} }
local rows, events, reply, forgotten = {}, {}, {}, find_forgotten(awaiting, arrivals_prefix, now)
for n = arrivals, #ARGV, 8 do
  local entry, upstream, time, outcome, cause, result, again, dependent = unpack(ARGV, n, n + 7)
  rows[#rows + 1] = judge_arrival(at, { entry = entry, upstream = upstream, time = time, outcome = outcome, cause = cause,
    result = result, again = again, id = dependent, source = 'relay:' .. source })
end

for place, row in ipairs(rows) do
  reply[place] = take_arrival(at, row, events)
end
forget_arrivals(awaiting, arrivals_prefix, forgotten, now)
save_gates(gates, at.gates)
add_events(ledger, ledger_limit, events)
return reply
