--[[
  Lists the accepted runs that may not be in BullMQ's queue yet, in the order in which they were accepted. Ends
  before the first run that still waits for the confirmation of a replica.

  ARGV[2]  pipeline
  ARGV[3]  confirmed  a run that a replica has just confirmed, or ''

  Returns {run id, …}
]]
local pipeline, confirmed = ARGV[2], ARGV[3]

local outbox = prefix .. 'outbox:' .. pipeline
if confirmed ~= '' then mayHandOver(confirmed) end
local found = {}
for _, runId in ipairs(redis.call('ZRANGE', outbox, 0, -1)) do
  if isUnconfirmed(runId) then break end
  found[#found + 1] = runId
end
return found
