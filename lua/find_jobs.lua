-- Look at the next jobs of a list, in order of their ids, and return those that a search takes.
-- Safe because: it only reads.
-- KEYS: list
-- ARGV: job_prefix start stop count state queue due_from due_until groups tags
--       the list is a zset of ids, all scores 0; start and stop are bounds as ZRANGE BYLEX has them, and `count` ids of those in
--       between are looked at; '' takes any state, queue, time, group or tags. A time takes active jobs alone. Of several
--       groups, with blanks between, the job's is to be one; of several tags it is to have all
-- Reply: {how many were looked at, the last of them or '', id…}
-- Error: none
-- Flags: no-writes
--@include lib/head
--@include lib/starts
local list = KEYS[1]
local job_prefix = ARGV[1]
local start = ARGV[2]
local stop = ARGV[3]
local count = ARGV[4]
local state = ARGV[5]
local queue = ARGV[6]
local due_from = tonumber(ARGV[7])
local due_until = tonumber(ARGV[8])
local groups = ARGV[9]
local tags = ARGV[10]

local function is_among(word, words)
  return string.find(' ' .. words .. ' ', ' ' .. word .. ' ', 1, true)
end

local function is_due(head)
  local at = head.state == 'active' and tonumber(head.next_run_at)
  return at and at < PAST_ALL_TIMES and at >= (due_from or at) and at <= (due_until or at)
end

local function has_all_tags(known_tags)
  for tag in string.gmatch(tags, '%S+') do
    if not is_among(tag, known_tags) then
      return false
    end
  end
  return true
end

local ids = redis.call('ZRANGE', list, start, stop, 'BYLEX', 'LIMIT', 0, count)
local reply = { #ids, ids[#ids] or '' }
for _, id in ipairs(ids) do
  local text, group, known_tags = unpack(redis.call('HMGET', job_prefix .. id, 'head', 'group', 'tags'), 1, 3)
  local head = read_head(text)
  -- A stream is its queue, or has the priority behind it.
  if head and (state == '' or state == head.state)
    and (queue == '' or queue == string.match(head.queue, '^[^:]*'))
    and (not due_from and not due_until or is_due(head))
    and (groups == '' or group and is_among(group, groups))
    and has_all_tags(known_tags or '') then
    reply[#reply + 1] = id
  end
end
return reply
