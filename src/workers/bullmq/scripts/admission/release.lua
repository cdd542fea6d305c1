--[[
  Gives a slot back, and its key with it.

  ARGV[2]  slot
  ARGV[3]  lifeMs  as it was renewed for
  ARGV[4]  key     or ''

  Returns 'ok'
]]
local slot, lifeMs, key = ARGV[2], ARGV[3], ARGV[4]

endSlot(slot, lifeMs)
forgetKey(key, 's ' .. slot)
return 'ok'
