--[[
  Removes runs from their pipeline's outbox, because they are now in BullMQ's queue.

  ARGV[2]  pipeline
  ARGV[3…] run ids

  Returns 'ok'
]]
local pipeline = ARGV[2]

local outbox = prefix .. 'outbox:' .. pipeline
for i = 3, #ARGV do redis.call('ZREM', outbox, ARGV[i]) end
if redis.call('EXISTS', outbox) == 0 then redis.call('SREM', prefix .. 'outboxes', pipeline) end
return 'ok'
