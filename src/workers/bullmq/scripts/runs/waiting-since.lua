--[[
  Reads the first queued run of each pipeline.

  ARGV[2…] pipelines

  Returns {record of that run or '', …}
]]
local answer = {}
for i = 2, #ARGV do
  local first = redis.call('ZINTER', 2, prefix .. 'queued:' .. ARGV[i], prefix .. 'queued', 'WEIGHTS', 0, 1)[1]
  answer[#answer + 1] = first and recordOf(first) or ''
end
return answer
