--[[
  Looks up the records of runs.

  ARGV[2…] run ids

  Returns {record, …}, one per id, with '' for a run that is unknown or has expired
]]
local records = {}
for i = 2, #ARGV do records[#records + 1] = recordOf(ARGV[i]) end
return records
