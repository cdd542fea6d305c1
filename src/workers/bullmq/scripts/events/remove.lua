--[[
  Deletes an undelivered event after it was finally delivered.

  ARGV[2]  notifier
  ARGV[3]  event     id
]]
local notifier, event = ARGV[2], ARGV[3]

redis.call('HDEL', prefix .. 'undelivered:' .. notifier, event)
redis.call('ZREM', prefix .. 'undelivered-order:' .. notifier, event)
if redis.call('EXISTS', prefix .. 'undelivered:' .. notifier) == 0 then
  redis.call('SREM', prefix .. 'undelivered-of', notifier)
end
