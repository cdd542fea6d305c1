--[[
  Returns an overview of each pipeline.

  ARGV[2…] pipelines

  Returns {number of queued runs, id of the run in progress or '', newest record or '', last success as JSON
  or '', number of runs waiting for their next attempt, …}, five values per pipeline
]]
local running = {}
for _, runId in ipairs(redis.call('SMEMBERS', prefix .. 'running')) do
  local pipeline = fieldsOf(runId, 'pipeline')
  running[pipeline] = runId
end
local answer = {}
for i = 2, #ARGV do
  local newest = redis.call('ZREVRANGE', prefix .. 'runs:' .. ARGV[i], 0, 0)[1]
  answer[#answer + 1] = redis.call('SCARD', prefix .. 'queued:' .. ARGV[i])
  answer[#answer + 1] = running[ARGV[i]] or ''
  answer[#answer + 1] = newest and recordOf(newest) or ''
  answer[#answer + 1] = redis.call('HGET', prefix .. 'succeeded', ARGV[i]) or ''
  answer[#answer + 1] = redis.call('ZCARD', prefix .. 'retrying:' .. ARGV[i])
end
return answer
