--[[
  Stores an event that could not be delivered to a notifier. If the event is already stored, it is replaced.
  If there are more events than the limit allows, the oldest ones are deleted.

  ARGV[2]  notifier
  ARGV[3]  event        id
  ARGV[4]  happened     event time in milliseconds
  ARGV[5]  undelivered  JSON
  ARGV[6]  limit        maximum number of events per notifier

  Returns the number of deleted events
]]
local notifier, event, happened, undelivered, limit = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

local order = prefix .. 'undelivered-order:' .. notifier
local events = prefix .. 'undelivered:' .. notifier
local known = redis.call('HGET', events, event)
local seq = known and string.match(known, '^%d+') or nextOf('undelivered-seq')
redis.call('HSET', events, event, seq .. ' ' .. undelivered)
redis.call('ZADD', order, happened, event)
redis.call('SADD', prefix .. 'undelivered-of', notifier)
local gone = 0
while redis.call('ZCARD', order) > limit do
  redis.call('HDEL', events, redis.call('ZPOPMIN', order)[1])
  gone = gone + 1
end
return gone
