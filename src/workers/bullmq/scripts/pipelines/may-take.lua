--[[
  Whether a run of a pipeline may be taken now: the pipeline is not paused, no worker holds a run of it, and no
  run that blocks the others waits for its next try.

  ARGV[2]  pipeline

  Returns 1 | 0
]]
local pipeline = ARGV[2]

if redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 or isHeld(pipeline) then return 0 end
local runId = redis.call('HGET', prefix .. 'blocking', pipeline)
return runId and dueIn(runId, pipeline) > 0 and 0 or 1
