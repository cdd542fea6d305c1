--[[
  Deletes an accepted run that no replica has confirmed, along with its Idempotency-Key and its archive.

  ARGV[2]  runId

  Returns 1 | 0 if the run may have been handed over already
]]
local runId = ARGV[2]

if fieldsOf(runId, 'state') ~= 'queued' or not isUnconfirmed(runId) then return 0 end
redis.call('ZREM', prefix .. 'outbox:' .. fieldsOf(runId, 'pipeline'), runId)
unwant(runId)
forgetRun(runId)
return 1
