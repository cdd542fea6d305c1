--[[
  Writes a key that a replica can confirm. Replicas receive writes in order, so a replica that has this write
  also has all earlier ones.

  ARGV[2…] run ids

  Returns {'1' if this Redis has or recently had replicas or '0', run id, …} with the runs that exist. Redis
  keeps its replication backlog for an hour after the last replica has left (`repl-backlog-ttl`).
]]
local hasBacklog = string.find(redis.call('INFO', 'replication'), 'repl_backlog_active:1', 1, true)
local answer = {hasBacklog and '1' or '0'}
for i = 2, #ARGV do
  if redis.call('EXISTS', prefix .. 'run:' .. ARGV[i]) == 1 then answer[#answer + 1] = ARGV[i] end
end
redis.call('SET', prefix .. 'confirmed', now)
return answer
