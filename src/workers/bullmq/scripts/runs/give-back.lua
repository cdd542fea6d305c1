--[[
  Puts a run back in the queue, in the place that it had before a worker claimed it.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  record  JSON

  Returns 1 | 0 if the run is not running or belongs to a different owner
]]
local runId, owner, record = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local current, state, seq = unpack(redis.call('HMGET', run, 'owner', 'state', 'seq'))
-- Don't use the stored pipeline, because another program may have changed it.
local pipeline = cjson.decode(record).pipeline_id
if current ~= owner or state ~= 'running' then return 0 end
saveRecord(runId, record, 'state', 'queued', 'owner', '')
redis.call('HSET', run, 'takes', number(redis.call('HGET', run, 'takes')) - 1)
leaveRunning(runId, pipeline)
redis.call('ZADD', prefix .. 'queued', number(seq), runId)
redis.call('SADD', prefix .. 'queued:' .. pipeline, runId)
return 1
