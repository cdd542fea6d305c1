--[[
  Reserves a slot for an upload. An upload whose key was already used needs none, since it won't be queued.

  ARGV[2]  slot       The call may be repeated with it, for example if its answer was lost.
  ARGV[3]  queueSize
  ARGV[4]  lifeMs     how long the slot and the key last without being renewed
  ARGV[5]  key        or ''
  ARGV[6]  rerunFailed  1 if the key may be reused when the first run with it has failed
  ARGV[7]  pipeline
  ARGV[8]  maxWaiting  maximum number of slots and queued runs of the pipeline, or ''

  Returns 'ok' | 'used' if a run was already accepted with this key; no slot was reserved | 'full' |
  'pipeline_full' | 'busy' if another upload with this key is in progress
]]
local slot, queueSize, lifeMs, key, rerunFailed = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local pipeline, maxWaiting = ARGV[7], tonumber(ARGV[8])

local known = key ~= '' and redis.call('GET', prefix .. 'key:' .. key)
if known == 's ' .. slot then known = false end
if known and not isStaging(known) then
  local _, first = usedKey(known)
  local isKnown = first and redis.call('EXISTS', prefix .. 'run:' .. first) == 1
  if isKnown and not (rerunFailed == '1' and hasFailed(first)) then return 'used' end
end
-- If Redis's clock was set back, older slots wouldn't expire for a long time, so remove them. Uploads that
-- are still in progress renew theirs.
local latest = now + lifeMs + 300000
redis.call('ZREMRANGEBYSCORE', prefix .. 'slots', latest, '+inf')
redis.call('ZREMRANGEBYSCORE', prefix .. 'slots:' .. pipeline, latest, '+inf')
local refusal = noSlot(pipeline, queueSize, maxWaiting)
if refusal then return refusal end
if key ~= '' then
  -- A key without a TTL wasn't written by waybill.
  local isFree = not known or redis.call('PTTL', prefix .. 'key:' .. key) < 0 and not usedKey(known)
  if isStaging(known) and not isFree then return 'busy' end
  if isFree then redis.call('SET', prefix .. 'key:' .. key, 's ' .. slot, 'PX', lifeMs) end
end
redis.call('ZADD', prefix .. 'slots', now + lifeMs, slot)
redis.call('ZADD', prefix .. 'slots:' .. pipeline, now + lifeMs, slot)
return 'ok'
