--[[
  Cancels a run. One that waits has ended then; whoever runs one is told to stop.

  ARGV[2]  runId
  ARGV[3]  record       JSON: what it is if it waits
  ARGV[4]  retentionMs

  Returns {} if the run is unknown | {'forgotten', record, job} | {'stopping', record} |
  {'finished', record} if it had ended before
]]
local runId, record, retentionMs = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'state', 'record', 'job', 'pipeline', 'key', 'digest')
local state, current, job, pipeline, key, digest = known[1], known[2], known[3], known[4], known[5], known[6]
if not state then return {} end
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
