--[[
  Holds a running run. Until the hold expires, no other worker can take one of the pipeline's runs.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  holdMs  lifetime of the hold

  Returns 1 (even if the run was not taken yet or has ended) | 0 if the run has a different owner
]]
local runId, owner, holdMs = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'owner', 'state')
if known[2] ~= 'running' then return 1 end
if known[1] ~= owner then return 0 end
redis.call('HSET', run, 'held', now + holdMs, 'hold', holdMs)
return 1
