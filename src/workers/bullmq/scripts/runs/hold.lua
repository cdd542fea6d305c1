--[[
  Renews a worker's hold on the run that it is executing. As long as the hold lasts, no other worker can start
  any of the pipeline's runs.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  holdMs  how long the hold lasts

  Returns 1 (also if the run is not in progress) | 0 if the run belongs to a different owner
]]
local runId, owner, holdMs = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local current, state = unpack(redis.call('HMGET', run, 'owner', 'state'))
if state ~= 'running' then return 1 end
if current ~= owner then return 0 end
redis.call('HSET', run, 'held', now + holdMs, 'hold', holdMs)
return 1
