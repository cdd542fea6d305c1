--[[
  Notes that a process uses this Redis, and finds those that divide the pipelines otherwise.

  ARGV[2]  process  its id
  ARGV[3]  names    of all the Redis that it divides the pipelines among, sorted, with spaces between
  ARGV[4]  lifeMs   after so long without another call it counts as dead

  Returns the names that other live processes have, as far as they differ
]]
local process, names, lifeMs = ARGV[2], ARGV[3], ARGV[4]
local processes = prefix .. 'processes'

redis.call('ZREMRANGEBYSCORE', processes, '-inf', now)
redis.call('ZADD', processes, now + lifeMs, process .. ' ' .. names)
local others = {}
for _, member in ipairs(redis.call('ZRANGE', processes, 0, -1)) do
  local of = string.sub(member, string.find(member, ' ', 1, true) + 1)
  if of ~= names then others[#others + 1] = of end
end
return others
