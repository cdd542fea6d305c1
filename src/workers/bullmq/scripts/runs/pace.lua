--[[
  Returns how many slots are occupied and when the latest runs ended.

  ARGV[2]  pipeline  or '' for all pipelines together

  Returns {now, number of slots and queued runs, 1 if the pipeline is paused, end time of a run, …}. The
  latest end time comes first, and all values are strings.
]]
local pipeline = ARGV[2]

local waiting, ended, isPaused
if pipeline == '' then
  waiting = redis.call('ZCOUNT', prefix .. 'slots', '(' .. now, '+inf') + redis.call('ZCARD', prefix .. 'queued')
  ended, isPaused = prefix .. 'ends', 0
else
  waiting, ended = waitingOf(pipeline), prefix .. 'ends:' .. pipeline
  isPaused = redis.call('HEXISTS', prefix .. 'paused', pipeline)
end
local pace = {tostring(now), tostring(waiting), tostring(isPaused)}
for _, at in ipairs(redis.call('LRANGE', ended, 0, -1)) do pace[#pace + 1] = at end
return pace
