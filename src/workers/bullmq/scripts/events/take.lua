--[[
  Shows that a host lives that delivers events, and gives it those of hosts that have ended.

  ARGV[2]  host
  ARGV[3]  lifeMs  without a sign of life it counts as dead after it
  ARGV[4]  limit    events of others at most; 0: none, as they may only be cut off like this host was
  ARGV[5]  own     1: returns what the host has, too; it may have missed an answer

  Returns {notifier and event id with a space between, JSON, …} in the order in which they were told
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
    redis.call('HSET', events, field, host .. ' ' .. text)
    redis.call('ZREM', theirs, field)
    redis.call('ZADD', mine, number, field)
    taken[#taken + 1] = field
  end
  if redis.call('EXISTS', theirs) == 0 then redis.call('ZREM', hosts, dead) end
  if #taken >= limit then break end
end
if own == '1' then taken = redis.call('ZRANGE', mine, 0, -1) end
local answer = {}
for _, field in ipairs(taken) do
  answer[#answer + 1] = field
  local _, text = ownedEvent(field)
  answer[#answer + 1] = text
end
return answer
