-- Put a paused job back into the due index, and start what is to be caught up on, one after the other.
-- Safe because: what was missed was worked out on the `next_run_at` of the pause, and counts only while that still stands.
-- KEYS: job buckets runs ledger
-- ARGV: id now note paused_at next_run_at starts skipped due_prefix history_limit ledger_limit
--       note is JSON that says who resumed it and why; paused_at is the `next_run_at` that was read; next_run_at '' completes the job; starts are nominal times to run,
--       oldest first, with blanks between; skipped is records, a line each, or ''
-- Reply: OK
-- Error: NOT_FOUND WRONG_STATE
--@include lib/due
--@include lib/head
--@include lib/records
local job = KEYS[1]
local buckets = KEYS[2]
local runs = KEYS[3]
local ledger = KEYS[4]
local id = ARGV[1]
local now = ARGV[2]
local note = ARGV[3]
local paused_at = ARGV[4]
local next_run_at = ARGV[5]
local starts = ARGV[6]
local skipped = ARGV[7]
local due_prefix = ARGV[8]
local history_limit = tonumber(ARGV[9])
local ledger_limit = tonumber(ARGV[10])

local known = redis.call('HMGET', job, 'head', 'queued', 'runs_left', 'upstreams')
local head, queued, runs_left, upstreams = read_head(known[1]), unpack(known, 2, 4)
if not head then
  return redis.error_reply('NOT_FOUND there is no job ' .. id)
end
if head.state ~= 'paused' or head.next_run_at ~= paused_at then
  return redis.error_reply('WRONG_STATE job ' .. id .. ' is ' .. head.state .. '; only a paused job can be resumed')
end
touch_due(buckets, due_prefix, next_run_at, head.queue)
touch_due(buckets, due_prefix, now, head.queue)
redis.call('EXISTS', ledger, runs)

local events = { '["resumed","' .. id .. '",' .. note .. ']' }
redis.call('HDEL', job, 'pause_note', 'failures')
redis.call('HSET', job, 'resume_note', note)
head.state, head.next_run_at = (next_run_at ~= '' or upstreams) and 'active' or 'completed', next_run_at
if next_run_at ~= '' then
  add_due(buckets, due_prefix, bucket_of(next_run_at), { next_run_at, head.plan .. '|' .. id })
end
if runs_left and starts ~= '' then
  local _, count = string.gsub(starts, '%d+', '')
  redis.call('HINCRBY', job, 'runs_left', -count)
end
-- Behind what waits already: overlap `after_success` may have something wait while nothing is live.
if starts ~= '' and head.live == 0 and not queued then
  local first, rest = string.match(starts, '^(%d+) ?(.*)$')
  redis.call('HSET', job, 'x:' .. first, 'due:1:' .. now)
  add_due(buckets, due_prefix, bucket_of(now), { now, id .. '@' .. first })
  starts, head.live = rest, 1
end
if starts ~= '' then
  -- A job with rules has the end of each execution start the next one.
  redis.call('HSET', job, 'queued', queued and queued .. ' ' .. starts or starts)
  head.rules = true
end
redis.call('HSET', job, 'head', head_of(head))
for record in string.gmatch(skipped, '[^\n]+') do
  add_skipped(runs, history_limit, events, id, record)
end
add_events(ledger, ledger_limit, events)
return redis.status_reply('OK')
