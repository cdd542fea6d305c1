--[[
  Decides what to do about a trigger, and queues a run if it starts one. The run doesn't need a slot.

  ARGV[2]  runId
  ARGV[3]  pipeline
  ARGV[4]  trigger  JSON
  ARGV[5]  job      JSON
  ARGV[6]  record   JSON
  ARGV[7]  passes   1 to record the trigger without starting a run
  ARGV[8]  latest   ignore the last tick if it is later than this time; '' never ignores it

  Returns {'known'} if this trigger was already decided | {outcome, the previous trigger or ''}, where the
  outcome is 'started' | 'coalesced' | 'paused' | 'passed'
]]
local runId, pipeline, trigger, job, record, passes = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local latest = ARGV[8]

local given = cjson.decode(trigger)
local isTick = given.kind == 'schedule'
local key = prefix .. 'triggers:' .. given.kind
local last = redis.call('HGET', key, pipeline)
if last then
  local before = objectOf(last)
  local tick = type(before.tick) == 'string' and before.tick or ''
  local isIgnored = isTick and latest ~= '' and tick > latest
  if isTick and not isIgnored and tick >= given.tick then return {'known'} end
  if not isTick and before.state == given.state then return {'known'} end
end
redis.call('HSET', key, pipeline, trigger)

local function outcomeOf()
  if passes == '1' then return 'passed' end
  if isTick and redis.call('HEXISTS', prefix .. 'paused', pipeline) == 1 then return 'paused' end
  if hasWaiting(pipeline) then return 'coalesced' end
  if isTick then
    for _, running in ipairs(redis.call('SMEMBERS', prefix .. 'running')) do
      if fieldsOf(running, 'pipeline') == pipeline then return 'coalesced' end
    end
  end
  return 'started'
end
local outcome = outcomeOf()
if outcome == 'started' then queueRun(runId, pipeline, job, record, '', '') end
return {outcome, last or ''}
