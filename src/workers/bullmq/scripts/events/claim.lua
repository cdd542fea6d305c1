--[[
  Claims the right to redeliver a notifier's undelivered events, or extends such a claim.

  ARGV[2]  notifier
  ARGV[3]  owner
  ARGV[4]  lifeMs    0 to release the claim

  Returns 1 | 0 if another process holds the claim
]]
local notifier, owner, lifeMs = ARGV[2], ARGV[3], tonumber(ARGV[4])

local key = prefix .. 'redelivering:' .. notifier
local current = redis.call('GET', key)
-- A claim without a TTL wasn't written by waybill.
if current and current ~= owner and redis.call('PTTL', key) >= 0 then return 0 end
if lifeMs == 0 then
  redis.call('DEL', key)
else
  redis.call('SET', key, owner, 'PX', lifeMs)
end
return 1
