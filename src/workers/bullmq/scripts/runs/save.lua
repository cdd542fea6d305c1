--[[
  Updates the record of a run in progress.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  record  JSON

  Returns 1 | 0 if the run is not in progress or belongs to a different owner
]]
local runId, owner, record = ARGV[2], ARGV[3], ARGV[4]

local current, state = unpack(redis.call('HMGET', prefix .. 'run:' .. runId, 'owner', 'state'))
if current ~= owner or state ~= 'running' then return 0 end
saveRecord(runId, record)
return 1
