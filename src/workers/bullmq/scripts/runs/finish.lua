--[[
  Marks a run as finished. Its record and its Idempotency-Key are deleted after the retention period.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  record       JSON
  ARGV[5]  retentionMs
  ARGV[6]  maxEnds      how many end times to keep
  ARGV[7]  bytes        size of its bundle if that is kept for reruns, otherwise ''

  Returns 1 (also if it was already finished) | 0 if the run belongs to a different owner
]]
local runId, owner, record, retentionMs, maxEnds = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local bytes = ARGV[7]

local current, state, key, digest, pipeline = fieldsOf(runId, 'owner', 'state', 'key', 'digest', 'pipeline')
if current ~= owner then return 0 end
if state == 'finished' then return 1 end
local outcome = cjson.decode(record)
if outcome.status == 'succeeded' then
  local success = cjson.encode({run_id = runId, finished_at = outcome.finished_at})
  redis.call('HSET', prefix .. 'succeeded', outcome.pipeline_id, success)
end
leaveRunning(runId, pipeline)
endRun(runId, record, retentionMs, key, digest, bytes)
noteEnd(pipeline, maxEnds)
return 1
