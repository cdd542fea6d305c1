--[[
  Registers a name in shared staging before anything is written under it.

  ARGV[2]  staged
  ARGV[3]  stagedLifeMs  until the name becomes unwanted

  Returns 'ok'
]]
local staged, stagedLifeMs = ARGV[2], ARGV[3]

redis.call('ZADD', prefix .. 'staging', now + stagedLifeMs, staged)
return 'ok'
