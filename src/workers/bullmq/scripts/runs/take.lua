--[[
  Makes a worker the owner of a run, even if the run has an owner.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  at     RFC 3339, by the worker's clock

  Returns {} if the run is finished or unknown | {'paused'} if its pipeline is paused |
  {'held'} if a live worker runs it |
  {'early', milliseconds, '1' if it blocks later runs or '0'} if its next try is not due yet |
  {'taken' | 'cancelled', record, job, number of takes as a string, time of the first earlier take or ''}

  'paused', 'held' and 'early' leave the run unchanged. 'cancelled': the caller ends the run.
]]
local runId, owner, at = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'state', 'record', 'job', 'pipeline', 'cancel', 'begun')
local state, record, job, pipeline = known[1], known[2], known[3], known[4]
local outcome = known[5] == '1' and 'cancelled' or 'taken'
if not state or state == 'finished' then return {} end
if outcome == 'taken' and redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 then return {'paused'} end
local pauseMs = dueIn(runId, pipeline)
if outcome == 'taken' and pauseMs > 0 then
  local blocks = redis.call('HGET', prefix .. 'blocking', pipeline) == runId
  return {'early', tostring(pauseMs), blocks and '1' or '0'}
end
local begun = known[6] or ''
if state == 'running' and isHeld(pipeline) then return {'held'} end
redis.call('HSET', run, 'state', 'running', 'owner', owner, 'begun', begun == '' and at or begun)
leaveLine(runId, pipeline)
enterRunning(runId, pipeline)
return {outcome, record, job, tostring(redis.call('HINCRBY', run, 'takes', 1)), begun}
