--[[
  Deletes a run, and its key if no other run has taken it since.

  ARGV[2]  runId

  Returns 'ok'
]]
local runId = ARGV[2]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'pipeline', 'key', 'digest')
local pipeline, key, digest = known[1], known[2], known[3]
if pipeline then
  redis.call('ZREM', prefix .. 'runs:' .. pipeline, runId)
  redis.call('SREM', prefix .. 'queued:' .. pipeline, runId)
  forgetKey(key, 'u ' .. digest .. ' ' .. runId)
end
redis.call('ZREM', prefix .. 'finished', runId)
redis.call('DEL', run)
return 'ok'
