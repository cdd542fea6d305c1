--[[
  Finds those of the given running runs that should stop.

  ARGV[2…] run ids

  Returns {run id, …}
]]
local found = {}
for i = 2, #ARGV do
  if fieldOf(ARGV[i], 'cancel') == '1' then found[#found + 1] = ARGV[i] end
end
return found
