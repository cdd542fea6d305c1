--[[
  Stands before every script. The script's text is this file and its own.

  Keys, each behind the prefix and a colon:

    run:<id>           hash: pipeline, seq, state (queued | running | finished), job, record, key, digest,
                       owner, takes, expires, position (in the line of its pipeline, when it was accepted),
                       cancel (1: whoever runs it is to stop)
    runs:<pipeline>    sorted set of run ids by seq: the order of acceptance
    queued             sorted set of run ids by seq
    queued:<pipeline>  set of them
    ends               list of the times at which the last runs ended, the latest first
    ends:<pipeline>    those of one pipeline
    paused             hash: a pipeline that is paused → JSON of {since, reason}
    running            set of run ids
    outbox:<pipeline>  sorted set of run ids by seq: accepted runs that may not be in BullMQ's queue yet
    outboxes           set of the pipelines whose outbox is not empty
    finished           sorted set of run ids by the time at which they expire
    slots              sorted set of upload slots by the time at which their API counts as dead
    slots:<pipeline>   those of one pipeline
    ended:<slot>       a slot that was given up: a renewal that comes late must not take it again
    staging            sorted set of names in shared staging that belong to no run yet, by the time at which
                       they become unwanted
    unwanted           sorted set of such names that are to be removed and then forgotten
    epoch              a name for this life of the data, made up by whoever asks for it first
    revision           counts the changes of all records
    succeeded          hash: pipeline → JSON of the run that succeeded last, {run_id, finished_at}
    changed            sorted set of run ids by the revision of their last change
    horizon            the newest revision of a run that was deleted
    key:<hash>         an Idempotency-Key: `s <slot>` while its upload is staged, then `u <digest> <run id>`

  Times are milliseconds of Redis's own clock, which all hosts share.

  On the channel `changes` every change of a record is published as `<revision> <record>`.

  ARGV[1]  prefix
]]
local prefix = ARGV[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Deletes the key if it still has this value.
local function forgetKey(key, value)
  if key ~= '' and redis.call('GET', prefix .. 'key:' .. key) == value then
    redis.call('DEL', prefix .. 'key:' .. key)
  end
end

-- Gives a slot up, for good.
local function endSlot(slot, lifeMs, pipeline)
  redis.call('ZREM', prefix .. 'slots', slot)
  redis.call('ZREM', prefix .. 'slots:' .. pipeline, slot)
  redis.call('SET', prefix .. 'ended:' .. slot, '', 'PX', lifeMs)
end

-- Whether a run has ended as failed.
local function hasFailed(runId)
  local known = redis.call('HMGET', prefix .. 'run:' .. runId, 'state', 'record')
  return known[1] == 'finished' and cjson.decode(known[2])['status'] == 'failed'
end

-- Saves a run's record, whose other fields follow, and notifies those who watch.
local function saveRecord(runId, record, ...)
  redis.call('HSET', prefix .. 'run:' .. runId, 'record', record, ...)
  local revision = redis.call('INCR', prefix .. 'revision')
  redis.call('ZADD', prefix .. 'changed', revision, runId)
  redis.call('PUBLISH', prefix .. 'changes', revision .. ' ' .. record)
end

-- Records the end of a run. Its record and its key expire after the retention.
local function endRun(runId, record, retentionMs, key, digest)
  saveRecord(runId, record, 'state', 'finished', 'expires', now + retentionMs)
  redis.call('ZADD', prefix .. 'finished', now + retentionMs, runId)
  if key ~= '' and redis.call('GET', prefix .. 'key:' .. key) == 'u ' .. digest .. ' ' .. runId then
    redis.call('PEXPIRE', prefix .. 'key:' .. key, retentionMs)
  end
end

-- Counts the slots and the queued runs of a pipeline.
local function waitingOf(pipeline)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slots:' .. pipeline, '-inf', now)
  return redis.call('ZCARD', prefix .. 'slots:' .. pipeline) + redis.call('SCARD', prefix .. 'queued:' .. pipeline)
end

-- The record of a run; '' if it is unknown or has expired.
local function recordOf(runId)
  local known = redis.call('HMGET', prefix .. 'run:' .. runId, 'record', 'expires')
  local record, expires = known[1], known[2]
  local isGone = not record or (expires and tonumber(expires) <= now)
  return isGone and '' or record
end

local function isStaging(value)
  return value and string.sub(value, 1, 2) == 's '
end
