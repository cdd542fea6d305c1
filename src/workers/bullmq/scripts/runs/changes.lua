--[[
  Lists the runs that changed after a given revision, in the order of their latest changes.

  ARGV[2]  after   revision; if '', no runs are listed
  ARGV[3]  limit   maximum number of runs
  ARGV[4]  epoch   name to give this generation of the data if it has none yet

  Returns {epoch, newest revision, horizon, revision of a run, its record or '', …}
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
