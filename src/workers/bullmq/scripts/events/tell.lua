--[[
  Keeps an event for each notifier that wants it, until it is delivered or given up; `host` sees to that.

  ARGV[2]  host
  ARGV[3]  lifeMs    without a sign of life the host counts as dead after it
  ARGV[4]  runId     of the run in which it happened, or ''
  ARGV[5]  event     id
  ARGV[6]  call      names this call: it may be repeated
  ARGV[7…]  notifier, JSON, notifier, …

  Returns 1 | 0 if it was told of this run before, by another call
]]
local host, lifeMs, runId, event, call = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]

local run = prefix .. 'run:' .. runId
if redis.call('EXISTS', run) == 1 and redis.call('HSETNX', run, 'told:' .. event, call) == 0 then
  return redis.call('HGET', run, 'told:' .. event) == call and 1 or 0
end
for i = 7, #ARGV, 2 do
  local field = ARGV[i] .. ' ' .. event
  redis.call('HSET', prefix .. 'events', field, host .. ' ' .. ARGV[i + 1])
  redis.call('ZADD', prefix .. 'events-of:' .. host, redis.call('INCR', prefix .. 'events-seq'), field)
end
redis.call('ZADD', prefix .. 'event-hosts', now + lifeMs, host)
return 1
