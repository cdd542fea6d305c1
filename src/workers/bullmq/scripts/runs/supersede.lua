--[[
  Ends a run that is waiting for its next attempt, because a newer run has replaced it. Its bundle is kept.

  ARGV[2]  runId
  ARGV[3]  record       JSON
  ARGV[4]  retentionMs
  ARGV[5]  bytes        size of its bundle, or '' if it has none

  Returns 1 | 0 if it is no longer waiting for its next attempt
]]
local runId, record, retentionMs, bytes = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local pipeline, key, digest = fieldsOf(runId, 'pipeline', 'key', 'digest')
if not redis.call('ZSCORE', prefix .. 'retrying:' .. pipeline, runId) then return 0 end
leaveLine(runId, pipeline)
endRun(runId, record, retentionMs, key, digest, bytes)
return 1
