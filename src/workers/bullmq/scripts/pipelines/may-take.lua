--[[
  Reports whether one of a pipeline's runs may be taken now. The pipeline must not be paused, no worker may
  hold one of its runs, and no blocking run may be waiting for its next try.

  ARGV[2]  pipeline

  Returns 1 | 0
]]
local pipeline = ARGV[2]

if redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 or isHeld(pipeline) then return 0 end
local runId = redis.call('HGET', prefix .. 'blocking', pipeline)
return runId and dueIn(runId, pipeline) > 0 and 0 or 1
