--[[
  Makes a worker the owner of a run, even if the run already has an owner.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  at     RFC 3339, by the worker's clock
  ARGV[5]  pipeline  of the ticket

  Returns {} if the run is finished | {'unknown'} | {'paused'} if its pipeline is paused |
  {'held'} if a live worker is running it |
  {'early', milliseconds, '1' if it blocks later runs or '0'} if its next try is not due yet |
  {'taken' | 'cancelled', record, job, number of takes as a string, time of the first earlier take or ''}

  'paused', 'held' and 'early' leave the run unchanged. After 'cancelled', the caller ends the run.
]]
local runId, owner, at, pipeline = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local run = prefix .. 'run:' .. runId
-- Another program may have replaced the run or its fields.
if redis.call('TYPE', run).ok ~= 'hash' then
  redis.call('DEL', run)
  leaveLine(runId, pipeline)
  return {'unknown'}
end
local known = redis.call('HMGET', run, 'state', 'record', 'job', 'cancel', 'begun')
local state, record, job = known[1], known[2], known[3]
local outcome = known[4] == '1' and 'cancelled' or 'taken'
if state == 'finished' then return {} end
if outcome == 'taken' and redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 then return {'paused'} end
local pauseMs = dueIn(runId, pipeline)
if outcome == 'taken' and pauseMs > 0 then
  local blocks = redis.call('HGET', prefix .. 'blocking', pipeline) == runId
  return {'early', tostring(pauseMs), blocks and '1' or '0'}
end
local begun = known[5] or ''
if state == 'running' and isHeld(pipeline) then return {'held'} end
local takes = number(redis.call('HGET', run, 'takes')) + 1
redis.call('HSET', run, 'state', 'running', 'owner', owner, 'pipeline', pipeline, 'takes', takes,
  'begun', begun == '' and at or begun)
leaveLine(runId, pipeline)
enterRunning(runId, pipeline)
return {outcome, record or '', job or '', tostring(takes), begun}
