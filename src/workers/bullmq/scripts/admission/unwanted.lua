--[[
  Lists abandoned archives in shared staging, whose uploads were never accepted. After this call, none of them
  can be used for a run anymore.

  ARGV[2]  limit  maximum number of names

  Returns {staged, …}
]]
local limit = ARGV[2]

local due = redis.call('ZRANGEBYSCORE', prefix .. 'staging', '-inf', now, 'LIMIT', 0, limit)
for _, staged in ipairs(due) do
  redis.call('ZREM', prefix .. 'staging', staged)
  redis.call('ZADD', prefix .. 'unwanted', now, staged)
end
return redis.call('ZRANGE', prefix .. 'unwanted', 0, limit - 1)
