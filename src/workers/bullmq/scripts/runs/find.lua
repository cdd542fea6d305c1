--[[
  Reads records.

  ARGV[2…] run ids

  Returns {record, or '' if the run is unknown or has expired, …}, one for each id
]]
local records = {}
for i = 2, #ARGV do
  local known = redis.call('HMGET', prefix .. 'run:' .. ARGV[i], 'record', 'expires')
  local record, expires = known[1], known[2]
  local isGone = not record or (expires and tonumber(expires) <= now)
  records[#records + 1] = isGone and '' or record
end
return records
