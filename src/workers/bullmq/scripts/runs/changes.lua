--[[
  Lists the runs whose records changed after a revision, ordered by their last change.

  ARGV[2]  after  lists no run if ''
  ARGV[3]  limit   maximum number of runs
  ARGV[4]  epoch  name for this generation of the data, if it has none yet

  Returns {epoch, newest revision, horizon, revision, record or '', …}
]]
local after, limit, epoch = ARGV[2], ARGV[3], ARGV[4]

redis.call('SET', prefix .. 'epoch', epoch, 'NX')
local answer = {
  redis.call('GET', prefix .. 'epoch'),
  number(redis.call('GET', prefix .. 'revision')),
  number(redis.call('GET', prefix .. 'horizon')),
}
if after == '' then return answer end
local found = redis.call('ZRANGEBYSCORE', prefix .. 'changed', '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
for i = 1, #found, 2 do
  answer[#answer + 1] = tonumber(found[i + 1])
  answer[#answer + 1] = recordOf(found[i])
end
return answer
