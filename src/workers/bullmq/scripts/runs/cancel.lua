--[[
  Cancels a run. A waiting run ends immediately. If the run is in progress, its worker is notified to stop.

  ARGV[2]  runId
  ARGV[3]  record       JSON of the new record if the run is waiting
  ARGV[4]  retentionMs

  Returns {} if the run is unknown | {'forgotten', record, job} if it was waiting | {'stopping', record} |
  {'finished', record} if it had already ended
]]
local runId, record, retentionMs = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local state, current, job = fieldsOf(runId, 'state', 'record', 'job')
local pipeline, key, digest = fieldsOf(runId, 'pipeline', 'key', 'digest')
if redis.call('TYPE', run).ok ~= 'hash' then return {} end
if state == 'finished' then return {'finished', current} end
if state == 'running' then
  redis.call('HSET', run, 'cancel', 1)
  redis.call('PUBLISH', prefix .. 'cancel', runId)
  return {'stopping', current}
end
leaveLine(runId, pipeline)
redis.call('ZREM', prefix .. 'outbox:' .. pipeline, runId)
endRun(runId, record, retentionMs, key, digest, '')
return {'forgotten', record, job}
