--[[
  Forgets an event whose delivery to a notifier has ended, whichever host saw to it by then.

  ARGV[2]  field  notifier and event id with a space between
]]
local field = ARGV[2]

local host = ownedEvent(field)
if host then
  redis.call('ZREM', prefix .. 'events-of:' .. host, field)
  redis.call('HDEL', prefix .. 'events', field)
end
