-- A job's field `head`: what scripts compare and change most, and what jobs that are alike have in common, so that one read
-- gets all of it, and one comparison of texts tells that a job is as it was. Words, with a blank between two:
--   rules state plan next_run_at live queue overlap retry
--   rules        `+` where there is more to look at: what lib/rules knows, or executions of a backfill; else `-`
--   next_run_at  `-` for no time to come
--   live         executions that are live, without those that a backfill started
--   queue        name of its ready stream
--   retry        JSON of what differs from the default policy; absent for nothing

local function read_head(text)
  local rules, state, plan, next_run_at, live, queue, overlap, retry =
    string.match(text or '', '^([+-]) (%S+) (%S+) (%S+) (%d+) (%S+) (%S+) ?(.*)$')
  if state then
    return { rules = rules == '+', state = state, plan = plan, next_run_at = next_run_at == '-' and '' or next_run_at,
      live = tonumber(live), queue = queue, overlap = overlap, retry = retry }
  end
end

local function head_of(head)
  return table.concat({ head.rules and '+' or '-', head.state, head.plan, head.next_run_at == '' and '-' or head.next_run_at,
    head.live, head.queue, head.overlap, head.retry ~= '' and head.retry or nil }, ' ')
end

local function has_rules(text)
  return text and string.sub(text, 1, 1) == '+'
end

local function head_at(key)
  return read_head(redis.call('HGET', key, 'head'))
end

-- Change words of the head of a job that is there. It is read again: what the script has done since may have changed it.
local function change_head(key, changes)
  local head = head_at(key)
  for word, value in pairs(changes) do
    head[word] = value
  end
  redis.call('HSET', key, 'head', head_of(head))
end

-- A head with so many more live executions.
local function with_live(text, by)
  local before, live, behind = string.match(text, '^(%S+ %S+ %S+ %S+ )(%d+)(.*)$')
  return before .. live + by .. behind
end

-- `text` is the head, where the script has read it and changed nothing of it since.
local function count_live(key, by, text)
  redis.call('HSET', key, 'head', with_live(text or redis.call('HGET', key, 'head'), by))
end
