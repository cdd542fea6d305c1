--[[
  Returns which of the given pipelines may have a run to start. That includes runs that are queued or
  waiting for their next attempt, and runs whose worker may have died.

  ARGV[2…] pipelines

  Returns {pipeline, …}
]]
local found = {}
for i = 2, #ARGV do
  local pipeline = ARGV[i]
  if redis.call('EXISTS', prefix .. 'queued:' .. pipeline) == 1
    or redis.call('EXISTS', prefix .. 'retrying:' .. pipeline) == 1
    or redis.call('HEXISTS', prefix .. 'active', pipeline) == 1 then
    found[#found + 1] = pipeline
  end
end
return found
