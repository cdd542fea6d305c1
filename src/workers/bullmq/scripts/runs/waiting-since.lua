--[[
  Reads the first queued run of each pipeline.

  ARGV[2…] pipelines

  Returns {record of that run or '', …}
]]
local answer = {}
for i = 2, #ARGV do
  local by = prefix .. 'run:*->seq'
  local first = redis.call('SORT', prefix .. 'queued:' .. ARGV[i], 'BY', by, 'LIMIT', 0, 1)[1]
  answer[#answer + 1] = first and recordOf(first) or ''
end
return answer
