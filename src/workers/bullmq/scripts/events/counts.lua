--[[
  Returns {notifier, number of its undelivered events, …} for the notifiers that have any
]]
local counts = {}
for _, notifier in ipairs(redis.call('SMEMBERS', prefix .. 'undelivered-of')) do
  table.insert(counts, notifier)
  table.insert(counts, redis.call('HLEN', prefix .. 'undelivered:' .. notifier))
end
return counts
