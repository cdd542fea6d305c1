--[[
  Removes bundles from their runs if they have expired, or if they are the oldest and the limits are exceeded.

  ARGV[2]  keepMs
  ARGV[3]  maxBundles
  ARGV[4]  maxBytes    maximum total size of all bundles
  ARGV[5]  limit       maximum number of bundles to remove

  Returns {job, …}
]]
local keepMs, maxBundles, maxBytes, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local jobs = {}
for i = 1, limit do
  local oldest = redis.call('ZRANGE', prefix .. 'kept', 0, 0, 'WITHSCORES')
  local count, bytes = redis.call('ZCARD', prefix .. 'kept'), number(redis.call('GET', prefix .. 'kept-bytes'))
  local isDue = oldest[1] and tonumber(oldest[2]) + keepMs <= now
  if not oldest[1] or not (isDue or count > maxBundles or bytes > maxBytes) then break end
  -- Another program may have overwritten the run.
  if redis.call('TYPE', prefix .. 'run:' .. oldest[1]).ok ~= 'hash' then redis.call('DEL', prefix .. 'run:' .. oldest[1]) end
  unkeep(oldest[1])
  notRerunnable(oldest[1])
  unwant(oldest[1])
  jobs[i] = fieldsOf(oldest[1], 'job')
end
return jobs
