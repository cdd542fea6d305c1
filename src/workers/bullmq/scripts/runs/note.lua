--[[
  Updates the failed deliveries in a run's record, unless another process changed them in the meantime.

  ARGV[2]  runId
  ARGV[3]  before  the deliveries that the caller has read, or '' if there were none
  ARGV[4]  after   the new members of the record, as JSON without the braces

  Returns 1 (also if the run is unknown) | 0 if they were changed in the meantime
]]
local runId, before, after = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local record = redis.call('HGET', run, 'record')
if not record then return 1 end
if (redis.call('HGET', run, 'deliveries') or '') ~= before then return 0 end
redis.call('HSET', run, 'deliveries', after)
saveRecord(runId, record)
return 1
