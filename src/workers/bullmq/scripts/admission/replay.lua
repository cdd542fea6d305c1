--[[
  Looks for a run that was already accepted with this Idempotency-Key.

  ARGV[2]  key
  ARGV[3]  digest       of this request's content
  ARGV[4]  rerunFailed  1 to ignore a failed run

  Returns {} if there is none | {'conflict'} if that run had different content | {'replay', record, position}
]]
local key, digest, rerunFailed = ARGV[2], ARGV[3], ARGV[4]

return replayOf(redis.call('GET', prefix .. 'key:' .. key), digest, rerunFailed) or {}
