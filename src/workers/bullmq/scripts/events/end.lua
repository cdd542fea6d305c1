--[[
  Deletes an event whose delivery to a notifier has ended, regardless of the host.

  ARGV[2]  field  notifier and event id, separated by a space
]]
local field = ARGV[2]

local host = ownedEvent(field)
if host then
  redis.call('ZREM', prefix .. 'events-of:' .. host, field)
  redis.call('HDEL', prefix .. 'events', field)
end
