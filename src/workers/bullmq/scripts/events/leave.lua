--[[
  Records that a host no longer delivers events. Other hosts may take its events immediately.

  ARGV[2]  host
]]
local host = ARGV[2]

redis.call('ZREM', prefix .. 'event-hosts', host)
if redis.call('EXISTS', prefix .. 'events-of:' .. host) == 1 then
  redis.call('ZADD', prefix .. 'event-hosts', 0, host)
end
