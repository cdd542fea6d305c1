--[[
  Queues the run of an upload that has been fully received, and frees the slot that it occupied.

  ARGV[2]  slot
  ARGV[3]  lifeMs    lifetime of the slot
  ARGV[4]  key       or ''
  ARGV[5]  digest    of the content
  ARGV[6]  runId
  ARGV[7]  pipeline
  ARGV[8]  job       JSON
  ARGV[9]  record    JSON
  ARGV[10]  staged   name in shared staging, or ''
  ARGV[11]  rerunFailed  1 if the key may be reused when the first run with it has failed
  ARGV[12]  unconfirmedMs  how long the run waits for the confirmation of a replica, or 0

  Returns {'ok', position} | {'replay', record, position} of the first run with this key |
  {'conflict'} if that run had different content | {'busy'} if another upload with this key is in progress |
  {'swept'} if the staged archive was already considered abandoned
]]
local slot, lifeMs, key, digest, runId = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local pipeline, job, record, staged, rerunFailed = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local unconfirmedMs = tonumber(ARGV[12])

local run = prefix .. 'run:' .. runId
-- The run already exists if the caller never got our first response and tries again.
if redis.call('EXISTS', run) == 1 then return {'ok', redis.call('HGET', run, 'position')} end
endSlot(slot, lifeMs, pipeline)
if key ~= '' then
  local known = redis.call('GET', prefix .. 'key:' .. key)
  if isStaging(known) and known ~= 's ' .. slot then return {'busy'} end
  local replay = replayOf(known, digest, rerunFailed)
  if replay then return replay end
end
if staged ~= '' and redis.call('ZREM', prefix .. 'staging', staged) == 0 then
  forgetKey(key, 's ' .. slot)
  return {'swept'}
end
local position = queueRun(runId, pipeline, job, record, key, digest)
if unconfirmedMs > 0 then redis.call('HSET', run, 'unconfirmed', now + unconfirmedMs) end
if key ~= '' then redis.call('SET', prefix .. 'key:' .. key, 'u ' .. digest .. ' ' .. runId) end
return {'ok', tostring(position)}
