--[[
  Turns a slot into a queued run.

  ARGV[2]  slot
  ARGV[3]  key       or ''
  ARGV[4]  digest    of the manifest
  ARGV[5]  runId
  ARGV[6]  pipeline
  ARGV[7]  job       JSON
  ARGV[8]  record    JSON
  ARGV[9]  staged    name in shared staging, or ''

  Returns {'ok'} | {'replay', record} | {'conflict'} (the key was used with another manifest) |
  {'busy'} (another request is staging an upload with the key) | {'swept'} (the name became unwanted)
]]
local slot, key, digest, runId, pipeline = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local job, record, staged = ARGV[7], ARGV[8], ARGV[9]

local run = prefix .. 'run:' .. runId
-- A retry after a lost answer: this is the same acceptance.
if redis.call('EXISTS', run) == 1 then return {'ok'} end
redis.call('ZREM', prefix .. 'slots', slot)
if key ~= '' then
  local known = redis.call('GET', prefix .. 'key:' .. key)
  if isStaging(known) and known ~= 's ' .. slot then return {'busy'} end
  if known and not isStaging(known) then
    local used, first = string.match(known, '^u (%S+) (.+)$')
    local firstRecord = redis.call('HGET', prefix .. 'run:' .. first, 'record')
    if firstRecord and used ~= digest then return {'conflict'} end
    if firstRecord then return {'replay', firstRecord} end
  end
end
if staged ~= '' and redis.call('ZREM', prefix .. 'staging', staged) == 0 then
  forgetKey(key, 's ' .. slot)
  return {'swept'}
end
local seq = redis.call('INCR', prefix .. 'seq')
redis.call('HSET', run, 'pipeline', pipeline, 'seq', seq, 'state', 'queued', 'job', job, 'record', record,
  'key', key, 'digest', digest, 'owner', '', 'takes', 0)
redis.call('ZADD', prefix .. 'runs:' .. pipeline, seq, runId)
redis.call('ZADD', prefix .. 'queued', seq, runId)
redis.call('ZADD', prefix .. 'outbox:' .. pipeline, seq, runId)
redis.call('SADD', prefix .. 'outboxes', pipeline)
if key ~= '' then redis.call('SET', prefix .. 'key:' .. key, 'u ' .. digest .. ' ' .. runId) end
return {'ok'}
