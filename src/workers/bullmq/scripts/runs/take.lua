--[[
  Makes a worker the owner of a run, whoever owned it before.

  ARGV[2]  runId
  ARGV[3]  owner

  Returns {} if the run is finished or unknown | {'paused'} if its pipeline is: the run stays as it was |
  {'taken' | 'cancelled', record, job, how often it was taken, as a string}; 'cancelled': it is to be ended
]]
local runId, owner = ARGV[2], ARGV[3]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'state', 'record', 'job', 'pipeline', 'cancel')
local state, record, job, pipeline = known[1], known[2], known[3], known[4]
local outcome = known[5] == '1' and 'cancelled' or 'taken'
if not state or state == 'finished' then return {} end
if outcome == 'taken' and redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 then return {'paused'} end
redis.call('HSET', run, 'state', 'running', 'owner', owner)
redis.call('ZREM', prefix .. 'queued', runId)
redis.call('SREM', prefix .. 'queued:' .. pipeline, runId)
redis.call('SADD', prefix .. 'running', runId)
return {outcome, record, job, tostring(redis.call('HINCRBY', run, 'takes', 1))}
