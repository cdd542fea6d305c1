--[[
  Claims a run for a worker. If the run had an owner before, the worker replaces it.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  at        RFC 3339, according to the worker's clock
  ARGV[5]  pipeline  from the ticket

  Returns {} if the run is finished | {'unknown'} | {'paused'} if its pipeline is paused |
  {'held'} if another worker is executing it |
  {'early', milliseconds, '1' if it blocks later runs or '0'} if its next attempt isn't due yet |
  {'taken' | 'cancelled', record, job, number of claims as a string, time of the first earlier claim or ''}

  'paused', 'held', and 'early' don't change the run. After 'cancelled', the caller has to end the run.
]]
local runId, owner, at, pipeline = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local run = prefix .. 'run:' .. runId
-- Another program may have overwritten the run or some of its fields.
if redis.call('TYPE', run).ok ~= 'hash' then
  redis.call('DEL', run)
  leaveLine(runId, pipeline)
  return {'unknown'}
end
local state, record, job, cancel, begun =
  unpack(redis.call('HMGET', run, 'state', 'record', 'job', 'cancel', 'begun'))
local outcome = cancel == '1' and 'cancelled' or 'taken'
if state == 'finished' then return {} end
if outcome == 'taken' and redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 then return {'paused'} end
local pauseMs = dueIn(runId, pipeline)
if outcome == 'taken' and pauseMs > 0 then
  local blocks = redis.call('HGET', prefix .. 'blocking', pipeline) == runId
  return {'early', tostring(pauseMs), blocks and '1' or '0'}
end
if state == 'running' and isHeld(pipeline) then return {'held'} end
local takes = number(redis.call('HGET', run, 'takes')) + 1
redis.call('HSET', run, 'state', 'running', 'owner', owner, 'pipeline', pipeline, 'takes', takes,
  'begun', begun or at)
leaveLine(runId, pipeline)
enterRunning(runId, pipeline)
return {outcome, record or '', job or '', tostring(takes), begun or ''}
