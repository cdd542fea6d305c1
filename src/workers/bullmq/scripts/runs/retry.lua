--[[
  Schedules the next attempt of a run whose attempt has failed.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  record    JSON
  ARGV[5]  pauseMs   time until the next attempt
  ARGV[6]  maxEnds   how many end times to keep
  ARGV[7]  blocks    1 if the pipeline's later runs have to wait for this one

  Returns 1 (also if it is already waiting) | 0 if the run has a different owner | 2 if it was cancelled
]]
local runId, owner, record, pauseMs, maxEnds = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local blocks = ARGV[7]

local current, state, cancel =
  unpack(redis.call('HMGET', prefix .. 'run:' .. runId, 'owner', 'state', 'cancel'))
-- Don't use the stored pipeline, because another program may have changed it.
local pipeline = cjson.decode(record).pipeline_id
if current ~= owner then return 0 end
if state == 'queued' then return 1 end
if state ~= 'running' then return 0 end
if cancel == '1' then return 2 end
saveRecord(runId, record, 'state', 'queued', 'takes', 0)
leaveRunning(runId, pipeline)
redis.call('ZADD', prefix .. 'retrying:' .. pipeline, now + pauseMs, runId)
if blocks == '1' then redis.call('HSET', prefix .. 'blocking', pipeline, runId) end
noteEnd(pipeline, maxEnds)
return 1
