--[[
  Stores failed deliveries in a run's record, unless another process has changed them since they were read.

  ARGV[2]  runId
  ARGV[3]  before  the deliveries as read, '' if there are none
  ARGV[4]  after   members of the record, JSON without the braces

  Returns 1 (even if the run is unknown) | 0 if they have changed
]]
local runId, before, after = ARGV[2], ARGV[3], ARGV[4]

local run = prefix .. 'run:' .. runId
local record = redis.call('HGET', run, 'record')
if not record then return 1 end
if (redis.call('HGET', run, 'deliveries') or '') ~= before then return 0 end
redis.call('HSET', run, 'deliveries', after)
saveRecord(runId, record)
return 1
