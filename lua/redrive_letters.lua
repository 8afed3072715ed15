-- Give dead executions another attempt. They keep their ids and their count of attempts; for the retry policy they begin anew.
-- They run as the job is now, not as it was when they died.
-- Safe because: the letter goes in the same step as the attempt comes into the index; asking twice starts one.
-- KEYS: dead buckets ledger
-- ARGV: now job_prefix due_prefix letter_prefix ledger_limit execution_ids...
-- Reply: {'redriven' | 'gone' | 'live' | 'no_job', …} for each: there is no such letter, the execution is live already, its
--       job was deleted
-- Error: none
--@include lib/due
--@include lib/execution
--@include lib/head
--@include lib/letters
--@include lib/records
local dead = KEYS[1]
local buckets = KEYS[2]
local ledger = KEYS[3]
local now = ARGV[1]
local job_prefix = ARGV[2]
local due_prefix = ARGV[3]
local letter_prefix = ARGV[4]
local ledger_limit = tonumber(ARGV[5])
local execution_ids = 6

redis.call('EXISTS', dead, buckets, ledger, due_prefix .. bucket_of(now))
local reply, rows, seen = {}, {}, {}
for n = execution_ids, #ARGV do
  local execution_id = ARGV[n]
  local id, nominal_at = split_execution_id(execution_id)
  local letter = redis.call('HMGET', letter_prefix .. execution_id, 'attempt', 'born')
  local job = redis.call('HMGET', job_prefix .. id, 'definition', 'x:' .. nominal_at)
  local answer = 'redriven'
  if not letter[1] or seen[execution_id] then
    answer = 'gone'
  elseif not job[1] or born(job[1]) ~= letter[2] then
    answer = 'no_job'
  elseif job[2] then
    answer = 'live'
  else
    seen[execution_id] = true
    rows[#rows + 1] = { execution_id, job_prefix .. id, nominal_at, tonumber(letter[1]) }
  end
  reply[#reply + 1] = answer
end

local events, due = {}, {}
for _, row in ipairs(rows) do
  local execution_id, job, nominal_at, attempts = unpack(row, 1, 4)
  redis.call('ZREM', dead, execution_id)
  redis.call('DEL', letter_prefix .. execution_id)
  redis.call('HSET', job, 'x:' .. nominal_at, place_of('due', attempts + 1, now, '.' .. attempts))
  count_live(job, 1)
  due[#due + 1] = now
  due[#due + 1] = execution_id
  events[#events + 1] = '["redriven","' .. execution_id .. '",' .. attempts + 1 .. ']'
end
if #due > 0 then
  add_due(buckets, due_prefix, bucket_of(now), due)
end
add_events(ledger, ledger_limit, events)
return reply
