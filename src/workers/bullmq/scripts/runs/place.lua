--[[
  Looks up a run's position among all runs that its pipeline has accepted.

  ARGV[2]  runId

  Returns {} if the run is unknown or has expired | {pipeline, seq}
]]
local runId = ARGV[2]

if recordOf(runId) == '' then return {} end
local pipeline = fieldsOf(runId, 'pipeline')
local seq = redis.call('ZSCORE', prefix .. 'runs:' .. pipeline, runId)
return seq and {pipeline, seq} or {}
