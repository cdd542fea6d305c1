--[[
  Counts the undelivered events of each notifier.

  Returns {notifier, number of events, …}, without the notifiers that have none
]]
local counts = {}
for _, notifier in ipairs(redis.call('SMEMBERS', prefix .. 'undelivered-of')) do
  table.insert(counts, notifier)
  table.insert(counts, redis.call('HLEN', prefix .. 'undelivered:' .. notifier))
end
return counts
