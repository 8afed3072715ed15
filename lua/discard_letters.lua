-- Throw dead letters away, and what upstream jobs gave those executions. The records in the jobs' histories stay.
-- Safe because: a letter goes only while it is the one that was seen: an execution that died again is another one.
-- KEYS: dead ledger
-- ARGV: letter_prefix inputs_prefix ledger_limit by letters...
--       a letter is execution_id died_at; by says who wants it, in the ledger
-- Reply: how many were discarded
-- Error: none
-- Flags: allow-oom
--@include lib/execution
--@include lib/records
local dead = KEYS[1]
local ledger = KEYS[2]
local letter_prefix = ARGV[1]
local inputs_prefix = ARGV[2]
local ledger_limit = tonumber(ARGV[3])
local by = ARGV[4]
local letters = 5

redis.call('EXISTS', dead, ledger)
local going = {}
for n = letters, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', dead, ARGV[n])) == tonumber(ARGV[n + 1]) then
    redis.call('EXISTS', letter_prefix .. ARGV[n], inputs_prefix .. split_execution_id(ARGV[n]))
    going[#going + 1] = ARGV[n]
  end
end

local events, count = {}, 0
for _, execution_id in ipairs(going) do
  local id, nominal_at = split_execution_id(execution_id)
  redis.call('DEL', letter_prefix .. execution_id)
  redis.call('HDEL', inputs_prefix .. id, nominal_at)
  if redis.call('ZREM', dead, execution_id) == 1 then
    count = count + 1
    events[#events + 1] = '["discarded","' .. execution_id .. '","' .. by .. '"]'
  end
end
add_events(ledger, ledger_limit, events)
return count
