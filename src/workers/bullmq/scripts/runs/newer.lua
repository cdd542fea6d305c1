--[[
  Lists the jobs of runs of the same pipeline that were accepted after a run, the newest first.

  ARGV[2]  runId
  ARGV[3]  limit   maximum of jobs

  Returns {job, …}
]]
local runId, limit = ARGV[2], ARGV[3]

local known = redis.call('HMGET', prefix .. 'run:' .. runId, 'pipeline', 'seq')
if not known[1] then return {} end
local jobs = {}
local newer = redis.call('ZREVRANGEBYSCORE', prefix .. 'runs:' .. known[1], '+inf', '(' .. known[2], 'LIMIT', 0, limit)
for _, id in ipairs(newer) do jobs[#jobs + 1] = redis.call('HGET', prefix .. 'run:' .. id, 'job') end
return jobs
