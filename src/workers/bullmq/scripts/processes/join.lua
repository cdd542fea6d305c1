--[[
  Registers a process of this Redis, and finds processes that divide the pipelines differently.

  ARGV[2]  process  its id
  ARGV[3]  names    of all its Redis servers, sorted, separated by spaces
  ARGV[4]  lifeMs   after this time without another call it counts as dead

  Returns the differing names of other live processes
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
