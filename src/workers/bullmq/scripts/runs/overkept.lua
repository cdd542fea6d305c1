--[[
  Takes the bundles that are not to be kept any longer from their runs: those kept for too long, and the oldest
  ones of too many.

  ARGV[2]  keepMs
  ARGV[3]  mostBundles
  ARGV[4]  mostBytes    of all together
  ARGV[5]  most         how many bundles at most

  Returns {job, …}
]]
local keepMs, mostBundles, mostBytes, most = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local jobs = {}
for i = 1, most do
  local oldest = redis.call('ZRANGE', prefix .. 'kept', 0, 0, 'WITHSCORES')
  local count, bytes = redis.call('ZCARD', prefix .. 'kept'), tonumber(redis.call('GET', prefix .. 'kept-bytes') or 0)
  local isDue = oldest[1] and tonumber(oldest[2]) + keepMs <= now
  if not oldest[1] or not (isDue or count > mostBundles or bytes > mostBytes) then break end
  unkeep(oldest[1])
  notRerunnable(oldest[1])
  unwant(oldest[1])
  jobs[i] = redis.call('HGET', prefix .. 'run:' .. oldest[1], 'job') or ''
end
return jobs
