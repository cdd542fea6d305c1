--[[
  Counts the occupied slots and the runs.

  Returns {slots, queued runs, running runs}
]]
return {
  redis.call('ZCOUNT', prefix .. 'slots', '(' .. now, '+inf'),
  redis.call('ZCARD', prefix .. 'queued'),
  redis.call('SCARD', prefix .. 'running'),
}
