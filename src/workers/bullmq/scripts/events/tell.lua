--[[
  Stores an event for each of the given notifiers, until it is delivered or given up. The host is then in
  charge of delivering it.

  ARGV[2]  host
  ARGV[3]  lifeMs    how long the host may go without another call before it is considered dead
  ARGV[4]  runId     the event's run, or ''
  ARGV[5]  event     id
  ARGV[6]  call      unique id of this call, so that it can be retried
  ARGV[7…]  notifier, JSON, notifier, …

  Returns 1 | 0 if the run's event was already stored by a different call
]]
local host, lifeMs, runId, event, call = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]

local run = prefix .. 'run:' .. runId
if redis.call('EXISTS', run) == 1 and redis.call('HSETNX', run, 'told:' .. event, call) == 0 then
  return redis.call('HGET', run, 'told:' .. event) == call and 1 or 0
end
for i = 7, #ARGV, 2 do
  local field = ARGV[i] .. ' ' .. event
  redis.call('HSET', prefix .. 'events', field, host .. ' ' .. ARGV[i + 1])
  redis.call('ZADD', prefix .. 'events-of:' .. host, nextOf('events-seq'), field)
end
redis.call('ZADD', prefix .. 'event-hosts', now + lifeMs, host)
return 1
