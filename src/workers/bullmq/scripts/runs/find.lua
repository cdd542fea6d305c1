--[[
  Reads records.

  ARGV[2…] run ids

  Returns {record, or '' if the run is unknown or has expired, …}, one per id
]]
local records = {}
for i = 2, #ARGV do records[#records + 1] = recordOf(ARGV[i]) end
return records
