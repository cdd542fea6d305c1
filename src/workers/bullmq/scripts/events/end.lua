--[[
  Deletes a notifier's event once it was delivered or given up, no matter which host was in charge of it.

  ARGV[2]  field  notifier and event id, separated by a space
]]
local field = ARGV[2]

local host = ownedEvent(field)
if host then
  redis.call('ZREM', prefix .. 'events-of:' .. host, field)
  redis.call('HDEL', prefix .. 'events', field)
end
