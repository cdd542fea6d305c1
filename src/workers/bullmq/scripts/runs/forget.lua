--[[
  Deletes a run, and its key unless another run has taken the key.

  ARGV[2]  runId

  Returns 'ok'
]]
local runId = ARGV[2]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'pipeline', 'key', 'digest')
local pipeline, key, digest = known[1], known[2], known[3]
if pipeline then
  redis.call('ZREM', prefix .. 'runs:' .. pipeline, runId)
  leaveLine(runId, pipeline)
  forgetKey(key, 'u ' .. digest .. ' ' .. runId)
end
local revision = redis.call('ZSCORE', prefix .. 'changed', runId)
if revision then
  local horizon = tonumber(redis.call('GET', prefix .. 'horizon') or 0)
  if tonumber(revision) > horizon then redis.call('SET', prefix .. 'horizon', revision) end
  redis.call('ZREM', prefix .. 'changed', runId)
end
redis.call('ZREM', prefix .. 'finished', runId)
unkeep(runId)
redis.call('DEL', run)
return 'ok'
