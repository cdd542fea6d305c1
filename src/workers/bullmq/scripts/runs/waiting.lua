--[[
  Finds those of the given pipelines that may have a run to take: a queued one, one that is waiting for its
  next try, or one whose worker may be dead.

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
