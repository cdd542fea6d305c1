--[[
  Deletes a run. Its Idempotency-Key is deleted as well, unless another run uses it by now.

  ARGV[2]  runId

  Returns 'ok'
]]
local runId = ARGV[2]

local run = prefix .. 'run:' .. runId
local known = fieldsOf(runId, 'pipeline', 'key', 'digest')
local pipeline, key, digest = known[1], known[2], known[3]
if pipeline ~= '' then
  redis.call('ZREM', prefix .. 'runs:' .. pipeline, runId)
  leaveLine(runId, pipeline)
  forgetKey(key, 'u ' .. digest .. ' ' .. runId)
end
local revision = redis.call('ZSCORE', prefix .. 'changed', runId)
if revision then
  local horizon = number(redis.call('GET', prefix .. 'horizon'))
  if tonumber(revision) > horizon then redis.call('SET', prefix .. 'horizon', revision) end
  redis.call('ZREM', prefix .. 'changed', runId)
end
redis.call('ZREM', prefix .. 'finished', runId)
-- Another program may have overwritten the run.
if redis.call('TYPE', run).ok == 'hash' then unkeep(runId) end
redis.call('DEL', run)
return 'ok'
