--[[
  Lists the given runs whose workers should stop because the run was cancelled.

  ARGV[2…] run ids

  Returns {run id, …}
]]
local found = {}
for i = 2, #ARGV do
  if fieldsOf(ARGV[i], 'cancel') == '1' then found[#found + 1] = ARGV[i] end
end
return found
