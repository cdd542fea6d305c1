--[[
  Checks whether a worker may start one of the pipeline's runs. It may not while the pipeline is paused, while
  another worker is running one, or while a blocking run is waiting for its next attempt.

  ARGV[2]  pipeline

  Returns 1 | 0
]]
local pipeline = ARGV[2]

if redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 or isHeld(pipeline) then return 0 end
local runId = redis.call('HGET', prefix .. 'blocking', pipeline)
return runId and dueIn(runId, pipeline) > 0 and 0 or 1
