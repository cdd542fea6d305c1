--[[
  Queues a new run that repeats a finished one. A run can be repeated only once, since its bundle moves to the
  new run.

  ARGV[2]  runId
  ARGV[3]  newRunId
  ARGV[4]  record      JSON for the new run
  ARGV[5]  job         JSON for the new run
  ARGV[6]  oldJob      JSON of the old run's job, without its bundle
  ARGV[7]  hasBundle   1 if the old run had a bundle when it was accepted
  ARGV[8]  queueSize
  ARGV[9]  maxWaiting  maximum number of slots and queued runs of the pipeline, or ''

  Returns {} if the run is unknown | {'unfinished'} | {'replay', record, position} of the run that has already
  repeated it | {'gone'} if its bundle was not kept | {'full'} | {'pipeline_full'} | {'ok', position}
]]
local runId, newRunId, record, job, oldJob = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local hasBundle, queueSize, maxWaiting = ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])

local run = prefix .. 'run:' .. runId
local state, pipeline, expires, again, bundle =
  fieldsOf(runId, 'state', 'pipeline', 'expires', 'rerun', 'bundle')
if state == '' or (expires ~= '' and number(expires) <= now) then return {} end
if state ~= 'finished' then return {'unfinished'} end
if again ~= '' then
  local repeated, position = fieldsOf(again, 'record', 'position')
  if repeated ~= '' then return {'replay', repeated, position} end
end
if hasBundle == '1' and bundle == 'gone' then return {'gone'} end
local refusal = noSlot(pipeline, queueSize, maxWaiting)
if refusal then return {refusal} end
unkeep(runId)
notRerunnable(runId)
redis.call('HSET', run, 'rerun', newRunId, 'job', oldJob)
return {'ok', tostring(queueRun(newRunId, pipeline, job, record, '', ''))}
