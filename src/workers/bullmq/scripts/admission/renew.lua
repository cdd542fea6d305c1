--[[
  Extends the lifetimes of a slot, its Idempotency-Key, and its archive's name in shared staging.

  ARGV[2]  slot
  ARGV[3]  lifeMs
  ARGV[4]  key           or ''
  ARGV[5]  staged        name in shared staging, or ''
  ARGV[6]  stagedLifeMs  how long until the archive is considered abandoned
  ARGV[7]  pipeline

  Returns 'ok' | 'ended' if the slot has already been released
]]
local slot, lifeMs, key, staged, stagedLifeMs = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local pipeline = ARGV[7]

if redis.call('EXISTS', prefix .. 'ended:' .. slot) == 1 then return 'ended' end
redis.call('ZADD', prefix .. 'slots', now + lifeMs, slot)
redis.call('ZADD', prefix .. 'slots:' .. pipeline, now + lifeMs, slot)
if key ~= '' then
  local known = redis.call('GET', prefix .. 'key:' .. key)
  if not known or known == 's ' .. slot then
    redis.call('SET', prefix .. 'key:' .. key, 's ' .. slot, 'PX', lifeMs)
  end
end
if staged ~= '' then redis.call('ZADD', prefix .. 'staging', 'XX', now + stagedLifeMs, staged) end
return 'ok'
