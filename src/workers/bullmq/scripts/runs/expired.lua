--[[
  Lists finished runs that have outlived their retention period.

  ARGV[2]  limit  maximum number of runs

  Returns {run id, job or '', …}
]]
local limit = ARGV[2]

local found = {}
for _, runId in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'finished', '-inf', now, 'LIMIT', 0, limit)) do
  found[#found + 1] = runId
  found[#found + 1] = fieldsOf(runId, 'job')
end
return found
