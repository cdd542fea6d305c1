--[[
  Puts the unfinished runs of the given pipelines back into their outboxes, because a failover may have lost
  their tickets.

  ARGV[2…] pipelines

  Returns 'ok'
]]
for i = 2, #ARGV do
  local pipeline = ARGV[i]
  local runIds = redis.call('SMEMBERS', prefix .. 'queued:' .. pipeline)
  for _, runId in ipairs(redis.call('ZRANGE', prefix .. 'retrying:' .. pipeline, 0, -1)) do
    runIds[#runIds + 1] = runId
  end
  local active = redis.call('HGET', prefix .. 'active', pipeline)
  if active then runIds[#runIds + 1] = active end
  for _, runId in ipairs(runIds) do
    redis.call('ZADD', prefix .. 'outbox:' .. pipeline, number(fieldsOf(runId, 'seq')), runId)
  end
  if #runIds > 0 then redis.call('SADD', prefix .. 'outboxes', pipeline) end
end
return 'ok'
