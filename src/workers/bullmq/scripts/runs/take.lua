--[[
  Makes a worker the owner of a run, whoever owned it before.

  ARGV[2]  runId
  ARGV[3]  owner

  Returns {} if the run is finished or unknown | {record, job, how often it was taken, as a string}
]]
local runId, owner = ARGV[2], ARGV[3]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'state', 'record', 'job')
local state, record, job = known[1], known[2], known[3]
if not state or state == 'finished' then return {} end
redis.call('HSET', run, 'state', 'running', 'owner', owner)
redis.call('ZREM', prefix .. 'queued', runId)
redis.call('SADD', prefix .. 'running', runId)
return {record, job, tostring(redis.call('HINCRBY', run, 'takes', 1))}
