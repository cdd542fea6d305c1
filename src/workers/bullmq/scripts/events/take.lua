--[[
  Records that a host is alive, and assigns it the events of hosts that have died.

  ARGV[2]  host
  ARGV[3]  lifeMs  how long the host may go without another call before it is considered dead
  ARGV[4]  limit   maximum number of events to take over; 0 if the others may only have been cut off
  ARGV[5]  own     1 to also return the host's own events, because it may never have received a response

  Returns {notifier and event id separated by a space, JSON, …}, in the order in which the events were stored
]]
local host, lifeMs, limit, own = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local hosts, events, mine = prefix .. 'event-hosts', prefix .. 'events', prefix .. 'events-of:' .. host
redis.call('ZADD', hosts, now + lifeMs, host)
local taken = {}
for _, dead in ipairs(limit > 0 and redis.call('ZRANGEBYSCORE', hosts, '-inf', now) or {}) do
  local theirs = prefix .. 'events-of:' .. dead
  local found = redis.call('ZRANGE', theirs, 0, limit - #taken - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local field, number = found[i], found[i + 1]
    local _, text = ownedEvent(field)
    redis.call('ZREM', theirs, field)
    -- Another program may have overwritten the event.
    if text then
      redis.call('HSET', events, field, host .. ' ' .. text)
      redis.call('ZADD', mine, number, field)
      taken[#taken + 1] = field
    else
      redis.call('HDEL', events, field)
    end
  end
  if redis.call('EXISTS', theirs) == 0 then redis.call('ZREM', hosts, dead) end
  if #taken >= limit then break end
end
if own == '1' then taken = redis.call('ZRANGE', mine, 0, -1) end
local answer = {}
for _, field in ipairs(taken) do
  local _, text = ownedEvent(field)
  answer[#answer + 1] = field
  answer[#answer + 1] = text or ''
end
return answer
