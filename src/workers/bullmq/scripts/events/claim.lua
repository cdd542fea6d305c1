--[[
  Takes or extends the right to send to a notifier again what is kept for it.

  ARGV[2]  notifier
  ARGV[3]  owner
  ARGV[4]  lifeMs    0: gives it back

  Returns 1, or 0 if somebody else has it
]]
local notifier, owner, lifeMs = ARGV[2], ARGV[3], tonumber(ARGV[4])

local key = prefix .. 'redelivering:' .. notifier
local current = redis.call('GET', key)
if current and current ~= owner then return 0 end
if lifeMs == 0 then
  redis.call('DEL', key)
else
  redis.call('SET', key, owner, 'PX', lifeMs)
end
return 1
