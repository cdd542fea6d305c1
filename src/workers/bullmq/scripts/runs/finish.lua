--[[
  Records the end of a run. Its record and its key expire after the retention.

  ARGV[2]  runId
  ARGV[3]  owner
  ARGV[4]  record       JSON
  ARGV[5]  retentionMs

  Returns 1, also if it was finished before | 0 if the run has another owner
]]
local runId, owner, record, retentionMs = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local run = prefix .. 'run:' .. runId
local known = redis.call('HMGET', run, 'owner', 'state', 'key', 'digest')
local state, key, digest = known[2], known[3], known[4]
if known[1] ~= owner then return 0 end
if state == 'finished' then return 1 end
redis.call('HSET', run, 'record', record, 'state', 'finished', 'expires', now + retentionMs)
redis.call('SREM', prefix .. 'running', runId)
redis.call('ZADD', prefix .. 'finished', now + retentionMs, runId)
if key ~= '' and redis.call('GET', prefix .. 'key:' .. key) == 'u ' .. digest .. ' ' .. runId then
  redis.call('PEXPIRE', prefix .. 'key:' .. key, retentionMs)
end
return 1
