--[[
  Frees an upload's slot and its Idempotency-Key.

  ARGV[2]  slot
  ARGV[3]  lifeMs  lifetime of the slot
  ARGV[4]  key     or ''
  ARGV[5]  pipeline

  Returns 'ok'
]]
local slot, lifeMs, key, pipeline = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

endSlot(slot, lifeMs, pipeline)
forgetKey(key, 's ' .. slot)
return 'ok'
