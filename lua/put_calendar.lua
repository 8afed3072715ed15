-- Store a calendar, in place of the one of that name, or delete it.
-- Safe because: one hash holds all of it, and a version that was read is compared in the step that writes. Versions are
-- counted over all calendars, so one that was deleted and made anew never has an old one.
-- KEYS: calendars
-- ARGV: name version calendar
--       version is the one that must stand, '' for any, 0 for none; calendar is its JSON, '' deletes
-- Reply: the new version, which is also the stamp of all calendars
-- Error: NOT_FOUND CONFLICT
local calendars = KEYS[1]
local name = ARGV[1]
local version = ARGV[2]
local calendar = ARGV[3]

local known = redis.call('HGET', calendars, name)
if not known and (calendar == '' or version ~= '' and version ~= '0') then
  return redis.error_reply('NOT_FOUND there is no calendar ' .. name)
end
if known and version ~= '' and string.match(known, '^%d+') ~= version then
  return redis.error_reply('CONFLICT calendar ' .. name .. ' has changed since it was read; read it again')
end

local stamp = redis.call('HINCRBY', calendars, '@stamp', 1)
if calendar == '' then
  redis.call('HDEL', calendars, name)
else
  redis.call('HSET', calendars, name, stamp .. ' ' .. calendar)
end
return stamp
