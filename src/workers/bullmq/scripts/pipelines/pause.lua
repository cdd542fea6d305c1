--[[
  Pauses a pipeline: from now on no run of it is taken. A paused pipeline keeps its first `since`.

  ARGV[2]  pipeline
  ARGV[3]  since   RFC 3339
  ARGV[4]  reason  JSON: a text or null

  Returns JSON of {since, reason}, as stored now
]]
local pipeline, since, reason = ARGV[2], ARGV[3], ARGV[4]

local known = redis.call('HGET', prefix .. 'paused', pipeline)
local before = objectOf(known or '')['since']
if type(before) == 'string' then since = before end
local pause = '{"since":' .. cjson.encode(since) .. ',"reason":' .. reason .. '}'
redis.call('HSET', prefix .. 'paused', pipeline, pause)
return pause
