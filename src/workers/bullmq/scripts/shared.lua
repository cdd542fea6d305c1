--[[
  Stands before every script. The script's text is this file and its own.

  Keys, each behind the prefix and a colon:

    run:<id>           hash: pipeline, seq, state (queued | running | finished), job, record, key, digest,
                       owner, takes, expires, position (in the line of its pipeline, when it was accepted),
                       cancel (1: whoever runs it is to stop), bundle (gone: what was staged is not kept),
                       bytes (of what is kept), rerun (the run that repeats it), begun (when it was first
                       taken, by the clock of that worker), told:<event id> (an event of it is kept, or was),
                       deliveries (members of the record that tell of deliveries that failed)
    runs:<pipeline>    sorted set of run ids by seq: the order of acceptance
    queued             sorted set of run ids by seq
    queued:<pipeline>  set of them
    retrying:<pipeline>
                       sorted set of the runs that wait for their next try, by the time at which it is due; they
                       are in no other line
    blocking           hash: pipeline → a run that waits for its next try, and that later ones wait behind
    ends               list of the times at which the last runs ended, the latest first
    ends:<pipeline>    those of one pipeline
    paused             hash: a pipeline that is paused → JSON of {since, reason}
    running            set of run ids
    outbox:<pipeline>  sorted set of run ids by seq: accepted runs that may not be in BullMQ's queue yet
    outboxes           set of the pipelines whose outbox is not empty
    kept               sorted set of the runs whose bundles are kept, by the time at which they ended
    kept-bytes         of all of those together
    finished           sorted set of run ids by the time at which they expire
    slots              sorted set of upload slots by the time at which their API counts as dead
    slots:<pipeline>   those of one pipeline
    ended:<slot>       a slot that was given up: a renewal that comes late must not take it again
    staging            sorted set of names in shared staging that belong to no run yet, by the time at which
                       they become unwanted
    unwanted           sorted set of such names that are to be removed and then forgotten
    epoch              a name for this life of the data, made up by whoever asks for it first
    revision           counts the changes of all records
    triggers:<kind>    hash: pipeline → JSON of the last trigger of the kind (schedule | watch) that was
                       decided for it
    succeeded          hash: pipeline → JSON of the run that succeeded last, {run_id, finished_at}
    changed            sorted set of run ids by the revision of their last change
    events             hash: `<notifier> <event id>` → `<host> <JSON>` of an event whose delivery has not ended;
                       the host sees to it
    events-of:<host>   sorted set of these by the order in which they were told
    events-seq         counts the events that were told
    event-hosts        sorted set of the hosts that deliver events by the time at which they count as dead
    undelivered:<notifier>
                       hash: event id → `<number> <JSON>` of an event that was given up; of events of the same
                       millisecond the one with the smaller number came first
    undelivered-order:<notifier>
                       sorted set of their ids by the time at which they happened
    undelivered-of     set of the notifiers that have any
    undelivered-seq    counts the events that were given up
    redelivering:<notifier>
                       who sends them again; expires if that one dies
    cleared            hash: pipeline → names of other Redis, with spaces between, that were seen to have no run
                       of it that has not ended, once its runs were accepted here
    processes          sorted set of `<process> <names of the Redis that it divides the pipelines among>` by the
                       time at which the process counts as dead
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

-- The host that sees to an event, and the event as JSON; nil if its delivery has ended.
local function ownedEvent(field)
  return string.match(redis.call('HGET', prefix .. 'events', field) or '', '^([^ ]+) (.*)$')
end

-- A record with the deliveries that failed as they are known now, whenever it was written. In text between
-- quotation marks these names cannot be: a quotation mark there has a backslash before it.
local function withDeliveries(runId, record)
  local deliveries = redis.call('HGET', prefix .. 'run:' .. runId, 'deliveries')
  if not deliveries then return record end
  local first = string.find(record, '"failed_deliveries":', 1, true)
  if not first then return string.sub(record, 1, -2) .. ',' .. deliveries .. '}' end
  local _, last = string.find(record, '"failed_deliveries_omitted":%d+', first)
  return string.sub(record, 1, first - 1) .. deliveries .. string.sub(record, last + 1)
end

-- Saves a run's record, whose other fields follow, and notifies those who watch.
local function saveRecord(runId, written, ...)
  local record = withDeliveries(runId, written)
  redis.call('HSET', prefix .. 'run:' .. runId, 'record', record, ...)
  local revision = redis.call('INCR', prefix .. 'revision')
  redis.call('ZADD', prefix .. 'changed', revision, runId)
  redis.call('PUBLISH', prefix .. 'changes', revision .. ' ' .. record)
end

-- Queues a run, and returns its place in the line of its pipeline.
local function queueRun(runId, pipeline, job, record, key, digest)
  local seq = redis.call('INCR', prefix .. 'seq')
  redis.call('SADD', prefix .. 'queued:' .. pipeline, runId)
  local position = redis.call('SCARD', prefix .. 'queued:' .. pipeline)
  saveRecord(runId, record, 'pipeline', pipeline, 'seq', seq, 'state', 'queued', 'job', job, 'key', key,
    'digest', digest, 'owner', '', 'takes', 0, 'position', position)
  redis.call('ZADD', prefix .. 'runs:' .. pipeline, seq, runId)
  redis.call('ZADD', prefix .. 'queued', seq, runId)
  redis.call('ZADD', prefix .. 'outbox:' .. pipeline, seq, runId)
  redis.call('SADD', prefix .. 'outboxes', pipeline)
  return position
end

-- A run waits no longer, neither for its turn nor for its next try.
local function leaveLine(runId, pipeline)
  redis.call('ZREM', prefix .. 'queued', runId)
  redis.call('SREM', prefix .. 'queued:' .. pipeline, runId)
  redis.call('ZREM', prefix .. 'retrying:' .. pipeline, runId)
  if redis.call('HGET', prefix .. 'blocking', pipeline) == runId then
    redis.call('HDEL', prefix .. 'blocking', pipeline)
  end
end

-- In how many milliseconds the next try of a run is due; 0 if it is, or if the run waits for none.
local function dueIn(runId, pipeline)
  local due = redis.call('ZSCORE', prefix .. 'retrying:' .. pipeline, runId)
  return due and math.max(0, tonumber(due) - now) or 0
end

-- Remembers when turns of runs ended.
local function noteEnd(pipeline, maxEnds)
  for _, ended in ipairs({prefix .. 'ends', prefix .. 'ends:' .. pipeline}) do
    redis.call('LPUSH', ended, now)
    redis.call('LTRIM', ended, 0, maxEnds - 1)
  end
end

-- The bundle of a run is kept no longer, or belongs to another run.
local function unkeep(runId)
  local run = prefix .. 'run:' .. runId
  if redis.call('ZREM', prefix .. 'kept', runId) == 1 then
    redis.call('DECRBY', prefix .. 'kept-bytes', redis.call('HGET', run, 'bytes') or 0)
  end
  redis.call('HSET', run, 'bundle', 'gone')
end

-- The run cannot be run again any more, which its record says.
local function notRerunnable(runId)
  local record = redis.call('HGET', prefix .. 'run:' .. runId, 'record')
  local changed, count = string.gsub(record or '', '"rerunnable":true', '"rerunnable":false', 1)
  if count == 1 then saveRecord(runId, changed) end
end

-- Marks the archive of a run for removal by any host. Another program may have changed the job.
local function unwant(runId)
  local job = redis.call('HGET', prefix .. 'run:' .. runId, 'job')
  local isJson, decoded = pcall(cjson.decode, job or '')
  local archive = isJson and type(decoded) == 'table' and decoded['archive']
  if type(archive) == 'table' and type(archive['name']) == 'string' then
    redis.call('ZADD', prefix .. 'unwanted', now, archive['name'])
  end
end

-- Records the end of a run. Its record and its key expire after the retention. `bytes`: of its bundle, which is
-- kept; '' if it is not.
local function endRun(runId, record, retentionMs, key, digest, bytes)
  if bytes == '' then
    redis.call('HSET', prefix .. 'run:' .. runId, 'bundle', 'gone')
    unwant(runId)
  else
    redis.call('HSET', prefix .. 'run:' .. runId, 'bytes', bytes)
    redis.call('ZADD', prefix .. 'kept', now, runId)
    redis.call('INCRBY', prefix .. 'kept-bytes', bytes)
  end
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

-- Whether there is no slot: 'full', 'pipeline_full' or nil. `maxWaiting`: nil if `queueSize` alone counts.
local function noSlot(pipeline, queueSize, maxWaiting)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slots', '-inf', now)
  if redis.call('ZCARD', prefix .. 'slots') + redis.call('ZCARD', prefix .. 'queued') >= queueSize then
    return 'full'
  end
  if maxWaiting and waitingOf(pipeline) >= maxWaiting then return 'pipeline_full' end
end

local function isStaging(value)
  return value and string.sub(value, 1, 2) == 's '
end
