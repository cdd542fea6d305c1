--[[
  Lists the runs of the given pipelines, newest first.

  ARGV[2]  before   only list runs with a smaller seq; '' starts with the newest run
  ARGV[3]  limit    maximum number of runs
  ARGV[4…] pipelines

  Returns {seq, record, …}; the record is '' if the run has expired
]]
local before, limit = ARGV[2], tonumber(ARGV[3])

local newest = before == '' and '+inf' or '(' .. before
local found = {}
for i = 4, #ARGV do
  local runs = redis.call('ZREVRANGEBYSCORE', prefix .. 'runs:' .. ARGV[i], newest, '-inf', 'WITHSCORES', 'LIMIT', 0, limit)
  for j = 1, #runs, 2 do found[#found + 1] = {runId = runs[j], seq = tonumber(runs[j + 1])} end
end
table.sort(found, function(a, b) return a.seq > b.seq end)
local answer = {}
for i = 1, math.min(limit, #found) do
  answer[#answer + 1] = found[i].seq
  answer[#answer + 1] = recordOf(found[i].runId)
end
return answer
