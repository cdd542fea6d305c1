--[[
  Pauses a pipeline, so that no worker starts its runs. If it is already paused, the original time is kept.

  ARGV[2]  pipeline
  ARGV[3]  since   RFC 3339
  ARGV[4]  reason  JSON: a string or null

  Returns the stored pause as JSON, {since, reason}
]]
local pipeline, since, reason = ARGV[2], ARGV[3], ARGV[4]

local known = redis.call('HGET', prefix .. 'paused', pipeline)
local before = objectOf(known or '')['since']
if type(before) == 'string' then since = before end
local pause = '{"since":' .. cjson.encode(since) .. ',"reason":' .. reason .. '}'
redis.call('HSET', prefix .. 'paused', pipeline, pause)
return pause
