--[[
  Gives a slot back, and its key with it.

  ARGV[2]  slot
  ARGV[3]  key   or ''

  Returns 'ok'
]]
local slot, key = ARGV[2], ARGV[3]

redis.call('ZREM', prefix .. 'slots', slot)
forgetKey(key, 's ' .. slot)
return 'ok'
