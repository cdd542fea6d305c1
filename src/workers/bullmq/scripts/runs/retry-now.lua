--[[
  If a run is waiting for its next attempt, makes that attempt due now.

  ARGV[2]  runId
  ARGV[3]  record  JSON of the new record

  Returns {} if the run is unknown | {'finished' | 'due' | 'unchanged', record}
]]
local runId, record = ARGV[2], ARGV[3]

local run = prefix .. 'run:' .. runId
local state = redis.call('HGET', run, 'state')
-- Don't use the stored pipeline, because another program may have changed it.
local pipeline = cjson.decode(record).pipeline_id
if not state then return {} end
if state == 'finished' then return {'finished', redis.call('HGET', run, 'record')} end
if not redis.call('ZSCORE', prefix .. 'retrying:' .. pipeline, runId) then
  return {'unchanged', redis.call('HGET', run, 'record')}
end
redis.call('ZADD', prefix .. 'retrying:' .. pipeline, now, runId)
saveRecord(runId, record)
return {'due', redis.call('HGET', run, 'record')}
