--[[
  Deletes a run. Its Idempotency-Key is deleted as well, unless another run uses it by now.

  ARGV[2]  runId

  Returns 'ok'
]]
forgetRun(ARGV[2])
return 'ok'
