--[[
  Definitions that all scripts share. Each script is sent to Redis as this file followed by its own text.

  The keys, each preceded by the prefix and a colon:

    run:<id>           hash: pipeline, seq, state (queued | running | finished), job, record, key, digest,
                       owner, takes (how often it was claimed), expires, position (in its pipeline's queue,
                       when accepted), cancel (1 if its worker should stop), bundle (gone if it was not
                       kept), bytes (size of the kept bundle), rerun (the run that repeats it), held (when
                       its worker's hold expires), hold (how long the hold lasts), begun (when it was first
                       claimed, according to that worker's clock), told:<event id> (the call that stored
                       this event), deliveries (the record's members about failed deliveries),
                       unconfirmed (until when it is not handed over, because no replica has confirmed it)
    runs:<pipeline>    sorted set of run ids by seq, in order of acceptance
    queued             sorted set of run ids by seq
    queued:<pipeline>  set of the queued run ids of one pipeline
    retrying:<pipeline>
                       sorted set of the runs waiting for their next attempt, by the time it is due; these
                       runs are not in any other queue
    blocking           hash: pipeline → a run that waits for its next attempt and blocks later runs
    ends               list of the times at which the latest runs ended, newest first
    ends:<pipeline>    the same for one pipeline
    paused             hash: paused pipeline → JSON of {since, reason}
    running            set of run ids
    active             hash: pipeline → its running run
    outbox:<pipeline>  sorted set of run ids by seq: accepted runs that may not be in BullMQ's queue yet
    outboxes           set of the pipelines whose outbox is not empty
    kept               sorted set of the runs whose bundles are kept, by end time
    kept-bytes         total size of these bundles
    finished           sorted set of run ids by expiry time
    slots              sorted set of upload slots by the time at which their API is considered dead
    slots:<pipeline>   the same for one pipeline
    ended:<slot>       marks a released slot, so that a late renewal doesn't bring it back
    staging            sorted set of names in shared staging that have no run yet, by the time at which they
                       are considered abandoned
    unwanted           sorted set of abandoned names in shared staging, to be deleted
    confirmed          time of the last confirmation by a replica
    epoch              name of this generation of the data, chosen by the first reader
    revision           number of times that any record has changed
    triggers:<kind>    hash: pipeline → JSON of the last trigger of that kind (schedule | watch)
    succeeded          hash: pipeline → JSON of its last successful run, {run_id, finished_at}
    changed            sorted set of run ids by the revision of their last change
    events             hash: `<notifier> <event id>` → `<host> <JSON>` of an event that is still to be
                       delivered by that host
    events-of:<host>   sorted set of the host's fields in `events`, in the order in which they were stored
    events-seq         number of events stored so far
    event-hosts        sorted set of the hosts that deliver events, by the time at which they are considered
                       dead
    undelivered:<notifier>
                       hash: event id → `<number> <JSON>` of an event that could not be delivered; the number
                       orders events of the same millisecond
    undelivered-order:<notifier>
                       sorted set of their ids by event time
    undelivered-of     set of the notifiers with undelivered events
    undelivered-seq    number of events that could not be delivered
    redelivering:<notifier>
                       the process that is redelivering them; expires if that process dies
    horizon            highest revision among the runs that have been deleted
    key:<hash>         an Idempotency-Key: `s <slot>` during its upload, then `u <digest> <run id>`

  Times are in milliseconds, according to Redis's clock, so they are consistent across hosts.

  KEYS     two keys that never exist, needed for Redis Cluster (see `scripts.ts`)
  ARGV[1]  the prefix, which has a hash tag in a Redis Cluster
]]
local prefix = ARGV[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Parses a number. Returns 0 if another program has overwritten it with something else.
local function number(value)
  local known = tonumber(value)
  return known and known > -1e15 and known < 1e15 and known or 0
end

-- Increments a counter and returns its new value. If another program has overwritten the counter, it
-- continues from the current time, which is greater than any count could be.
local function nextOf(counter)
  local number = redis.pcall('INCR', prefix .. counter)
  if type(number) == 'number' then return number end
  redis.call('SET', prefix .. counter, now)
  return now
end

-- Returns fields of a run as strings. Missing fields are ''. If another program has overwritten the run, all of
-- them are ''.
local function fieldsOf(runId, ...)
  local known, fields = redis.pcall('HMGET', prefix .. 'run:' .. runId, ...), {}
  for i = 1, select('#', ...) do fields[i] = known[i] or '' end
  return unpack(fields)
end

-- Parses a JSON object. Returns an empty one if another program has overwritten it.
local function objectOf(text)
  local isJson, value = pcall(cjson.decode, text)
  return isJson and type(value) == 'table' and value or {}
end

-- Reports whether the pipeline has a run that is queued or waiting for its next attempt.
local function hasWaiting(pipeline)
  for _, runId in ipairs(redis.call('SMEMBERS', prefix .. 'queued:' .. pipeline)) do
    if fieldsOf(runId, 'state') == 'queued' then return true end
  end
  for _, runId in ipairs(redis.call('ZRANGE', prefix .. 'retrying:' .. pipeline, 0, -1)) do
    if fieldsOf(runId, 'state') == 'queued' then return true end
  end
  return false
end

-- Deletes an Idempotency-Key, provided that it still has this value.
local function forgetKey(key, value)
  if key ~= '' and redis.call('GET', prefix .. 'key:' .. key) == value then
    redis.call('DEL', prefix .. 'key:' .. key)
  end
end

-- Releases a slot for good, so that late renewals no longer have any effect.
local function endSlot(slot, lifeMs, pipeline)
  redis.call('ZREM', prefix .. 'slots', slot)
  redis.call('ZREM', prefix .. 'slots:' .. pipeline, slot)
  redis.call('SET', prefix .. 'ended:' .. slot, '', 'PX', lifeMs)
end

-- Reports whether a run has finished and failed.
local function hasFailed(runId)
  local state, record = fieldsOf(runId, 'state', 'record')
  return state == 'finished' and objectOf(record)['status'] == 'failed'
end

-- Returns the host in charge of an event, and the event as JSON. Returns nil if there is nothing left to
-- deliver.
local function ownedEvent(field)
  return string.match(redis.call('HGET', prefix .. 'events', field) or '', '^([^ ]+) (.*)$')
end

-- Replaces the failed deliveries in a record with the latest ones. Searching the text is safe, because
-- quotation marks inside a JSON string are always escaped.
local function withDeliveries(runId, record)
  local deliveries = redis.call('HGET', prefix .. 'run:' .. runId, 'deliveries')
  if not deliveries or not pcall(cjson.decode, '{' .. deliveries .. '}') then return record end
  local first = string.find(record, '"failed_deliveries":', 1, true)
  if not first then return string.sub(record, 1, -2) .. ',' .. deliveries .. '}' end
  local _, last = string.find(record, '"failed_deliveries_omitted":%d+', first)
  return string.sub(record, 1, first - 1) .. deliveries .. string.sub(record, last + 1)
end

-- Saves a run's record, along with any additional fields, and gives this change a revision.
local function saveRecord(runId, written, ...)
  redis.call('HSET', prefix .. 'run:' .. runId, 'record', withDeliveries(runId, written), ...)
  redis.call('ZADD', prefix .. 'changed', nextOf('revision'), runId)
end

-- Queues a run and returns its position in the pipeline's queue.
local function queueRun(runId, pipeline, job, record, key, digest)
  local seq = nextOf('seq')
  local position = redis.call('SCARD', prefix .. 'queued:' .. pipeline) + 1
  saveRecord(runId, record, 'pipeline', pipeline, 'seq', seq, 'state', 'queued', 'job', job, 'key', key,
    'digest', digest, 'owner', '', 'takes', 0, 'position', position)
  redis.call('ZADD', prefix .. 'runs:' .. pipeline, seq, runId)
  redis.call('SADD', prefix .. 'queued:' .. pipeline, runId)
  redis.call('ZADD', prefix .. 'queued', seq, runId)
  redis.call('ZADD', prefix .. 'outbox:' .. pipeline, seq, runId)
  redis.call('SADD', prefix .. 'outboxes', pipeline)
  return position
end

-- Removes a run from the queue, or from the runs that are waiting for their next attempt.
local function leaveLine(runId, pipeline)
  redis.call('ZREM', prefix .. 'queued', runId)
  redis.call('SREM', prefix .. 'queued:' .. pipeline, runId)
  redis.call('ZREM', prefix .. 'retrying:' .. pipeline, runId)
  if redis.call('HGET', prefix .. 'blocking', pipeline) == runId then
    redis.call('HDEL', prefix .. 'blocking', pipeline)
  end
end

-- Marks a run as running.
local function enterRunning(runId, pipeline)
  redis.call('SADD', prefix .. 'running', runId)
  redis.call('HSET', prefix .. 'active', pipeline, runId)
end

-- Marks a run as no longer running.
local function leaveRunning(runId, pipeline)
  redis.call('SREM', prefix .. 'running', runId)
  if redis.call('HGET', prefix .. 'active', pipeline) == runId then
    redis.call('HDEL', prefix .. 'active', pipeline)
  end
end

-- Reports whether a live worker is executing one of the pipeline's runs.
local function isHeld(pipeline)
  local runId = redis.call('HGET', prefix .. 'active', pipeline)
  if not runId then return false end
  local held, holdMs = fieldsOf(runId, 'held', 'hold')
  local leftMs = number(held) - now
  -- If Redis's clock was set back, the hold seems to last longer than it should. Treat it as expired.
  return leftMs > 0 and leftMs <= (holdMs ~= '' and number(holdMs) or leftMs)
end

-- Returns how many milliseconds are left until a run's next attempt. Returns 0 if the attempt is due or the
-- run isn't waiting for one.
local function dueIn(runId, pipeline)
  local due = redis.call('ZSCORE', prefix .. 'retrying:' .. pipeline, runId)
  return due and math.max(0, number(due) - now) or 0
end

-- Records that an attempt has ended, which is used by `pace`.
local function noteEnd(pipeline, maxEnds)
  for _, ended in ipairs({prefix .. 'ends', prefix .. 'ends:' .. pipeline}) do
    redis.call('LPUSH', ended, now)
    redis.call('LTRIM', ended, 0, maxEnds - 1)
  end
end

-- Adjusts the total size of the kept bundles.
local function addKept(bytes)
  local total = number(redis.call('GET', prefix .. 'kept-bytes')) + bytes
  redis.call('SET', prefix .. 'kept-bytes', string.format('%.0f', total))
end

-- Records that a run no longer has a bundle.
local function unkeep(runId)
  local run = prefix .. 'run:' .. runId
  if redis.call('ZREM', prefix .. 'kept', runId) == 1 then
    addKept(-number(fieldsOf(runId, 'bytes')))
  end
  redis.call('HSET', run, 'bundle', 'gone')
end

-- Records that a run can't be rerun anymore.
local function notRerunnable(runId)
  local changed, count = string.gsub(fieldsOf(runId, 'record'), '"rerunnable":true', '"rerunnable":false', 1)
  if count == 1 then saveRecord(runId, changed) end
end

-- Schedules a run's archive for deletion by any host. The job may have been changed by another program.
local function unwant(runId)
  local archive = objectOf(fieldsOf(runId, 'job'))['archive']
  if type(archive) == 'table' and type(archive['name']) == 'string' then
    redis.call('ZADD', prefix .. 'unwanted', now, archive['name'])
  end
end

-- Marks a run as finished. Its record and its Idempotency-Key are deleted after the retention period. `bytes`
-- is the size of its bundle, or '' if the bundle isn't kept.
local function endRun(runId, record, retentionMs, key, digest, bytes)
  if bytes == '' then
    redis.call('HSET', prefix .. 'run:' .. runId, 'bundle', 'gone')
    unwant(runId)
  else
    redis.call('HSET', prefix .. 'run:' .. runId, 'bytes', bytes)
    redis.call('ZADD', prefix .. 'kept', now, runId)
    addKept(number(bytes))
  end
  saveRecord(runId, record, 'state', 'finished', 'expires', now + retentionMs)
  redis.call('ZADD', prefix .. 'finished', now + retentionMs, runId)
  if key ~= '' and redis.call('GET', prefix .. 'key:' .. key) == 'u ' .. digest .. ' ' .. runId then
    redis.call('PEXPIRE', prefix .. 'key:' .. key, retentionMs)
  end
end

-- Counts the pipeline's occupied slots and queued runs.
local function waitingOf(pipeline)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slots:' .. pipeline, '-inf', now)
  return redis.call('ZCARD', prefix .. 'slots:' .. pipeline) + redis.call('SCARD', prefix .. 'queued:' .. pipeline)
end

-- Returns a run's record, or '' if the run is unknown or has expired.
local function recordOf(runId)
  local record, expires = fieldsOf(runId, 'record', 'expires')
  return expires ~= '' and number(expires) <= now and '' or record
end

-- Returns 'full' or 'pipeline_full' if no slot is available, and nil if there is one. If `maxWaiting` is nil,
-- the pipeline has no limit of its own.
local function noSlot(pipeline, queueSize, maxWaiting)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slots', '-inf', now)
  if redis.call('ZCARD', prefix .. 'slots') + redis.call('ZCARD', prefix .. 'queued') >= queueSize then
    return 'full'
  end
  if maxWaiting and waitingOf(pipeline) >= maxWaiting then return 'pipeline_full' end
end

-- Returns the digest and the run id stored in a used Idempotency-Key. Returns nil for any other value.
local function usedKey(value)
  return string.match(value, '^u (%S+) (.+)$')
end

-- Reports whether a run still waits for the confirmation of a replica. It has no ticket then. If the time is
-- far away, another program has overwritten it, or Redis's clock was set back.
local function isUnconfirmed(runId)
  local leftMs = number(fieldsOf(runId, 'unconfirmed')) - now
  return leftMs > 0 and leftMs <= 60000
end

-- Ends the wait for a confirmation, so that the run can no longer be retracted. Either a replica has confirmed
-- it, or the response to another request names it.
local function mayHandOver(runId)
  redis.call('HDEL', prefix .. 'run:' .. runId, 'unconfirmed')
end

local function isStaging(value)
  return value and string.sub(value, 1, 2) == 's '
end

-- Returns the answer to a request whose Idempotency-Key has this value: {'conflict'} if the first run with the
-- key had different content, or {'replay', record, position} of that run. Returns nil if there is no such run,
-- or if it has failed and `rerunFailed` is '1'.
local function replayOf(value, digest, rerunFailed)
  if not value or isStaging(value) then return nil end
  local used, first = usedKey(value)
  local record = first and fieldsOf(first, 'record') or ''
  if record == '' then return nil end
  if used ~= digest then return {'conflict'} end
  if rerunFailed == '1' and hasFailed(first) then return nil end
  mayHandOver(first)
  return {'replay', record, fieldsOf(first, 'position')}
end

-- Deletes a run, and its Idempotency-Key unless another run uses it by now.
local function forgetRun(runId)
  local run = prefix .. 'run:' .. runId
  local pipeline, key, digest = fieldsOf(runId, 'pipeline', 'key', 'digest')
  if pipeline ~= '' then
    redis.call('ZREM', prefix .. 'runs:' .. pipeline, runId)
    leaveLine(runId, pipeline)
    forgetKey(key, 'u ' .. digest .. ' ' .. runId)
  end
  local revision = redis.call('ZSCORE', prefix .. 'changed', runId)
  if revision then
    local horizon = number(redis.call('GET', prefix .. 'horizon'))
    if tonumber(revision) > horizon then redis.call('SET', prefix .. 'horizon', revision) end
    redis.call('ZREM', prefix .. 'changed', runId)
  end
  redis.call('ZREM', prefix .. 'finished', runId)
  -- Another program may have overwritten the run.
  if redis.call('TYPE', run).ok == 'hash' then unkeep(runId) end
  redis.call('DEL', run)
end
