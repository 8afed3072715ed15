-- New jobs of one shard, as create_jobs gets them: shapes, which is what jobs have in common, and for each job the number of
-- its shape and what is its own. A job then costs one HSET, whatever its shape says.
--@include lib/due
--@include lib/job

local SHAPE_SIZE = 20
local NEW_JOB_SIZE = 5
-- Behind HSET, the key, the head with its name, the target with its name, and the name of it.
local PAYLOAD_AT = 8

-- The shape that stands in ARGV from `first` on. `words` is the HSET that makes a job of it, with gaps for what is the job's.
local function read_shape(first)
  local words, defined = { 'HSET', '', 'head', '' }, first + 1
  for n, word in ipairs(defined_fields(defined)) do
    words[4 + n] = word
  end
  local pause_note = ARGV[first + SHAPE_SIZE - 1]
  if pause_note ~= '' then
    words[#words + 1] = 'pause_note'
    words[#words + 1] = pause_note
  end
  return { words = words, defined = defined, pause_note = pause_note, plan_id = ARGV[first], queue = ARGV[defined], target = ARGV[defined + 2],
    retry = ARGV[defined + 4], expires_after_ms = ARGV[defined + 8], group = ARGV[defined + 12], tags = ARGV[defined + 17], heads = {} }
end

local function read_shapes(first, count)
  local shapes = {}
  for n = 1, count do
    shapes[n] = read_shape(first + (n - 1) * SHAPE_SIZE)
  end
  return shapes
end

-- Which of the keys `prefix .. <job id>` exist, by the place of the job in ARGV. One call says that none does, as is usual.
local function which_exist(prefix, first_job)
  local keys, found = {}, {}
  for n = first_job, #ARGV, NEW_JOB_SIZE do
    keys[#keys + 1] = prefix .. ARGV[n]
  end
  if #keys > 0 and redis.call('EXISTS', unpack(keys)) > 0 then
    for place, key in ipairs(keys) do
      found[first_job + (place - 1) * NEW_JOB_SIZE] = redis.call('EXISTS', key) == 1
    end
  end
  return found
end

-- The head of a new job. Jobs of a shape and a time have the same: it is put together once.
local function new_head(shape, next_run_at, live, has_dependents)
  local name = next_run_at .. ' ' .. live .. (has_dependents and '+' or '')
  local text = shape.heads[name]
  if not text then
    local state = shape.pause_note ~= '' and 'paused' or state_of(next_run_at, shape.defined)
    local head = define_head(shape.defined, state, shape.plan_id, next_run_at, live)
    head.rules = head.rules or has_dependents
    text = head_of(head)
    shape.heads[name] = text
  end
  return text
end

-- `live` is how many executions the job starts with.
local function write_new(key, shape, next_run_at, payload, live, has_dependents)
  local words = shape.words
  words[2], words[4], words[PAYLOAD_AT] = key, new_head(shape, next_run_at, live, has_dependents), payload
  redis.call(unpack(words))
  if has_dependents then
    redis.call('HSET', key, 'dependents', 1)
  end
end

-- The nominal time of the execution that a new job starts, '' for none, and what the script replies for the job. `last` is a
-- time that it, and all that is started by hand, must be later than, or false.
local function start_after(key, run_at, last)
  if not last then
    return run_at, 1
  end
  local is_late = run_at == '' or tonumber(run_at) > tonumber(last)
  local nominal_at = is_late and run_at or string.format('%.0f', tonumber(last) + 1)
  redis.call('HSET', key, 'ran_at', run_at == '' and last or nominal_at)
  return nominal_at, is_late and 1 or tonumber(nominal_at)
end

-- What start_now wants to know of a new job.
local function work_of(shape, payload)
  return { shape.target, payload, shape.retry, shape.expires_after_ms }
end

local function note_created(events, id, shape)
  events[#events + 1] = '["created","' .. id .. '"]'
  if shape.pause_note ~= '' then
    events[#events + 1] = '["paused","' .. id .. '",' .. shape.pause_note .. ']'
  end
end

-- New members of the due index are gathered by bucket, one ZADD for each. A job that is paused keeps its time, and is not in it.
local function note_due(due, next_run_at, id, shape)
  if next_run_at ~= '' and shape.pause_note == '' then
    local bucket = bucket_of(next_run_at)
    local scored = due[bucket] or {}
    scored[#scored + 1] = next_run_at
    scored[#scored + 1] = shape.plan_id .. '|' .. id
    due[bucket] = scored
  end
end

local function add_all_due(buckets, due_prefix, due)
  for bucket, scored_members in pairs(due) do
    add_due(buckets, due_prefix, bucket, scored_members)
  end
end
