--[[
  Lists the jobs that the same pipeline accepted after a run, newest first.

  ARGV[2]  runId
  ARGV[3]  limit   maximum number of jobs

  Returns {job, …}
]]
local runId, limit = ARGV[2], ARGV[3]

local pipeline = fieldsOf(runId, 'pipeline')
local seq = redis.call('ZSCORE', prefix .. 'runs:' .. pipeline, runId)
if not seq then return {} end
local jobs = {}
local newer = redis.call('ZREVRANGEBYSCORE', prefix .. 'runs:' .. pipeline, '+inf', '(' .. seq, 'LIMIT', 0, limit)
for _, id in ipairs(newer) do jobs[#jobs + 1] = fieldsOf(id, 'job') end
return jobs
