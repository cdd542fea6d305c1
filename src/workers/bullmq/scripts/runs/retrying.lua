--[[
  Lists a pipeline's runs that are waiting for their next attempt.

  ARGV[2]  pipeline

  Returns {record, job, …}
]]
local pipeline = ARGV[2]

local answer = {}
for _, runId in ipairs(redis.call('ZRANGE', prefix .. 'retrying:' .. pipeline, 0, -1)) do
  local record, job = fieldsOf(runId, 'record', 'job')
  answer[#answer + 1] = record
  answer[#answer + 1] = job
end
return answer
