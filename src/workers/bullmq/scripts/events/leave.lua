--[[
  Records that a host has stopped delivering events, so that other hosts can take over its events immediately.

  ARGV[2]  host
]]
local host = ARGV[2]

redis.call('ZREM', prefix .. 'event-hosts', host)
if redis.call('EXISTS', prefix .. 'events-of:' .. host) == 1 then
  redis.call('ZADD', prefix .. 'event-hosts', 0, host)
end
