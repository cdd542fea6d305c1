--[[
  Registers an archive's name in shared staging. Called before anything is written there.

  ARGV[2]  staged
  ARGV[3]  stagedLifeMs  how long until the archive is considered abandoned

  Returns 'ok'
]]
local staged, stagedLifeMs = ARGV[2], ARGV[3]

redis.call('ZADD', prefix .. 'staging', now + stagedLifeMs, staged)
return 'ok'
