--[[
  Extends BullMQ's lock on an active job, as BullMQ does. Unlike BullMQ, it also renews a lock that expired while
  Redis was unreachable, unless another worker has the job: the job is then still in the active list.

  ARGV[2]  lockKey
  ARGV[3]  activeKey   list of active jobs
  ARGV[4]  stalledKey  set of possibly stalled jobs
  ARGV[5]  token
  ARGV[6]  lockMs
  ARGV[7]  jobId

  Returns 1 | 0 if another worker has the job
]]
local lockKey, activeKey, stalledKey, token, lockMs, jobId = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local held = redis.call('GET', lockKey)
if held ~= token and (held or not redis.call('LPOS', activeKey, jobId)) then return 0 end
redis.call('SET', lockKey, token, 'PX', lockMs)
redis.call('SREM', stalledKey, jobId)
return 1
