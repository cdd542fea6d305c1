--[[
  Looks up the run that was accepted with a key.

  ARGV[2]  key
  ARGV[3]  digest  of this request's manifest

  Returns {} if there is none | {'conflict'} if that run had another manifest | {'replay', record}
]]
local key, digest = ARGV[2], ARGV[3]

local known = redis.call('GET', prefix .. 'key:' .. key)
if not known or isStaging(known) then return {} end
local used, first = string.match(known, '^u (%S+) (.+)$')
local record = redis.call('HGET', prefix .. 'run:' .. first, 'record')
if not record then return {} end
if used ~= digest then return {'conflict'} end
return {'replay', record}
