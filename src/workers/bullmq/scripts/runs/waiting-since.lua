--[[
  Returns the record of each pipeline's first queued run.

  ARGV[2…] pipelines

  Returns {record, …}, with '' for a pipeline that has no queued run
]]
local answer = {}
for i = 2, #ARGV do
  local first = redis.call('ZINTER', 2, prefix .. 'queued:' .. ARGV[i], prefix .. 'queued', 'WEIGHTS', 0, 1)[1]
  answer[#answer + 1] = first and recordOf(first) or ''
end
return answer
