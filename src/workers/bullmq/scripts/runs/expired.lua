--[[
  Lists finished runs whose retention is over.

  ARGV[2]  most  how many runs at most

  Returns {run id, job or '', …}
]]
local most = ARGV[2]

local found = {}
for _, runId in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'finished', '-inf', now, 'LIMIT', 0, most)) do
  found[#found + 1] = runId
  found[#found + 1] = redis.call('HGET', prefix .. 'run:' .. runId, 'job') or ''
end
return found
