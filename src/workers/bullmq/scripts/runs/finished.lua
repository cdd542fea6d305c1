--[[
  Returns which of the given runs are finished or unknown.

  ARGV[2…] run ids

  Returns {run id, …}
]]
local finished = {}
for i = 2, #ARGV do
  local state = fieldsOf(ARGV[i], 'state')
  if state == '' or state == 'finished' then finished[#finished + 1] = ARGV[i] end
end
return finished
