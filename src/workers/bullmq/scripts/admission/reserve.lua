--[[
  Takes an upload slot, unless the key was already used. Such a request queues nothing.

  ARGV[2]  slot
  ARGV[3]  queueSize
  ARGV[4]  lifeMs     until the slot and the key expire, unless they are renewed
  ARGV[5]  key        or ''
  ARGV[6]  rerunFailed  1 if a failed run's key counts as unused
  ARGV[7]  pipeline
  ARGV[8]  maxWaiting  maximum number of slots and queued runs of the pipeline, or ''

  Returns 'ok' | 'used' (a run was accepted with this key; no slot was taken) | 'full' |
  'pipeline_full' | 'busy' (another request is staging an upload with this key)
]]
local slot, queueSize, lifeMs, key, rerunFailed = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local pipeline, maxWaiting = ARGV[7], tonumber(ARGV[8])

local known = key ~= '' and redis.call('GET', prefix .. 'key:' .. key)
if known and not isStaging(known) then
  local _, first = usedKey(known)
  local isKnown = first and redis.call('EXISTS', prefix .. 'run:' .. first) == 1
  if isKnown and not (rerunFailed == '1' and hasFailed(first)) then return 'used' end
end
-- Drops slots taken before Redis's clock was set back. A live upload renews its slot.
local latest = now + lifeMs + 300000
redis.call('ZREMRANGEBYSCORE', prefix .. 'slots', latest, '+inf')
redis.call('ZREMRANGEBYSCORE', prefix .. 'slots:' .. pipeline, latest, '+inf')
local refusal = noSlot(pipeline, queueSize, maxWaiting)
if refusal then return refusal end
if key ~= '' then
  -- A key that waybill did not write has no TTL.
  local isFree = not known or redis.call('PTTL', prefix .. 'key:' .. key) < 0 and not usedKey(known)
  if isStaging(known) and not isFree then return 'busy' end
  if isFree then redis.call('SET', prefix .. 'key:' .. key, 's ' .. slot, 'PX', lifeMs) end
end
redis.call('ZADD', prefix .. 'slots', now + lifeMs, slot)
redis.call('ZADD', prefix .. 'slots:' .. pipeline, now + lifeMs, slot)
return 'ok'
