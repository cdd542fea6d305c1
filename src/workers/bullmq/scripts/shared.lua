--[[
  Precedes every script. A script's text is this file followed by its own.

  Keys, each after the prefix and a colon:

    run:<id>           hash: pipeline, seq, state (queued | running | finished), job, record, key, digest,
                       owner, takes, expires, position (in its pipeline's queue, at acceptance), cancel (1 if
                       its worker must stop), bundle (gone if the bundle is not kept), bytes (of the kept
                       bundle), rerun (the run that repeats it), held (when its worker's hold expires), hold
                       (how long the hold lasts), begun (when it was first taken, by that worker's clock),
                       told:<event id> (the call that stored this event), deliveries (members of the record
                       with its failed deliveries)
    runs:<pipeline>    sorted set of run ids by seq, in order of acceptance
    queued             sorted set of run ids by seq
    queued:<pipeline>  set of the queued run ids of one pipeline
    retrying:<pipeline>
                       sorted set of the runs waiting for their next try, by its due time; they are in no
                       other queue
    blocking           hash: pipeline → a run that is waiting for its next try and blocks later runs
    ends               list of the most recent runs' end times, latest first
    ends:<pipeline>    the same for one pipeline
    paused             hash: paused pipeline → JSON of {since, reason}
    running            set of run ids
    active             hash: pipeline → its running run
    outbox:<pipeline>  sorted set of run ids by seq, for accepted runs that may not be in BullMQ's queue yet
    outboxes           set of the pipelines whose outbox is not empty
    kept               sorted set of the runs whose bundles are kept, by end time
    kept-bytes         total size of these bundles
    finished           sorted set of run ids by expiry time
    slots              sorted set of upload slots by the time at which their API counts as dead
    slots:<pipeline>   the same for one pipeline
    ended:<slot>       a released slot, so that a late renewal cannot take it again
    staging            sorted set of names in shared staging without a run, by the time at which they become
                       unwanted
    unwanted           sorted set of names in shared staging to remove and then forget
    epoch              name of this generation of the data, set by the first reader
    revision           number of record changes
    triggers:<kind>    hash: pipeline → JSON of its last decided trigger of that kind (schedule | watch)
    succeeded          hash: pipeline → JSON of its last successful run, {run_id, finished_at}
    changed            sorted set of run ids by the revision of their last change
    events             hash: `<notifier> <event id>` → `<host> <JSON>` of an event whose delivery has not ended;
                       the host delivers it
    events-of:<host>   sorted set of the host's fields of `events` in the order in which they were stored
    events-seq         number of events stored so far
    event-hosts        sorted set of the hosts that deliver events, by the time at which they count as dead
    undelivered:<notifier>
                       hash: event id → `<number> <JSON>` of an undelivered event; the number orders events of
                       the same millisecond
    undelivered-order:<notifier>
                       sorted set of their ids by event time
    undelivered-of     set of the notifiers with undelivered events
    undelivered-seq    number of events that became undelivered
    redelivering:<notifier>
                       the process that redelivers them; expires if it dies
    horizon            newest revision of any deleted run
    key:<hash>         an Idempotency-Key: `s <slot>` while its upload is staged, then `u <digest> <run id>`

  Times are milliseconds of Redis's clock, which all hosts share.

  The channel `changes` publishes every record change as `<revision> <record>`.

  KEYS     two keys that never exist, for Redis Cluster (`scripts.ts`)
  ARGV[1]  prefix, with a hash tag in Redis Cluster
]]
local prefix = ARGV[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Parses a number. Returns 0 if another program has replaced it with something else.
local function number(value)
  local known = tonumber(value)
  return known and known > -1e15 and known < 1e15 and known or 0
end

-- Returns the next number of a counter. If another program has replaced the counter, it continues from the
-- current time, which is higher than any count.
local function nextOf(counter)
  local number = redis.pcall('INCR', prefix .. counter)
  if type(number) == 'number' then return number end
  redis.call('SET', prefix .. counter, now)
  return now
end

-- Returns fields of a run as strings. A missing field is '', and so is every field if another program has
-- replaced the run.
local function fieldsOf(runId, ...)
  local known, fields = redis.pcall('HMGET', prefix .. 'run:' .. runId, ...), {}
  for i = 1, select('#', ...) do fields[i] = known[i] or '' end
  return fields
end

-- Like `fieldsOf`, but returns a single field of a run.
local function fieldOf(runId, field)
  return fieldsOf(runId, field)[1]
end

-- Parses a JSON object. Returns an empty one if another program has replaced it.
local function objectOf(text)
  local isJson, value = pcall(cjson.decode, text)
  return isJson and type(value) == 'table' and value or {}
end

-- Reports whether a run of the pipeline is waiting, for its turn or for its next try.
local function hasWaiting(pipeline)
  for _, runId in ipairs(redis.call('SMEMBERS', prefix .. 'queued:' .. pipeline)) do
    if fieldOf(runId, 'state') == 'queued' then return true end
  end
  for _, runId in ipairs(redis.call('ZRANGE', prefix .. 'retrying:' .. pipeline, 0, -1)) do
    if fieldOf(runId, 'state') == 'queued' then return true end
  end
  return false
end

-- Deletes the key if it has this value.
local function forgetKey(key, value)
  if key ~= '' and redis.call('GET', prefix .. 'key:' .. key) == value then
    redis.call('DEL', prefix .. 'key:' .. key)
  end
end

-- Ends a slot permanently.
local function endSlot(slot, lifeMs, pipeline)
  redis.call('ZREM', prefix .. 'slots', slot)
  redis.call('ZREM', prefix .. 'slots:' .. pipeline, slot)
  redis.call('SET', prefix .. 'ended:' .. slot, '', 'PX', lifeMs)
end

-- Reports whether a run has ended as failed.
local function hasFailed(runId)
  local known = fieldsOf(runId, 'state', 'record')
  return known[1] == 'finished' and objectOf(known[2])['status'] == 'failed'
end

-- Returns the host that delivers an event and the event as JSON. Returns nil if the delivery has ended.
local function ownedEvent(field)
  return string.match(redis.call('HGET', prefix .. 'events', field) or '', '^([^ ]+) (.*)$')
end

-- Inserts the currently known failed deliveries into a record. The names searched for cannot occur inside a
-- JSON string, because JSON escapes quotation marks there.
local function withDeliveries(runId, record)
  local deliveries = redis.call('HGET', prefix .. 'run:' .. runId, 'deliveries')
  if not deliveries or not pcall(cjson.decode, '{' .. deliveries .. '}') then return record end
  local first = string.find(record, '"failed_deliveries":', 1, true)
  if not first then return string.sub(record, 1, -2) .. ',' .. deliveries .. '}' end
  local _, last = string.find(record, '"failed_deliveries_omitted":%d+', first)
  return string.sub(record, 1, first - 1) .. deliveries .. string.sub(record, last + 1)
end

-- Saves a run's record along with any additional fields, and notifies watchers.
local function saveRecord(runId, written, ...)
  local record = withDeliveries(runId, written)
  local revision = nextOf('revision')
  redis.call('HSET', prefix .. 'run:' .. runId, 'record', record, ...)
  redis.call('ZADD', prefix .. 'changed', revision, runId)
  redis.call('PUBLISH', prefix .. 'changes', revision .. ' ' .. record)
end

-- Queues a run. Returns its position in the pipeline's queue.
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

-- Removes a run from the queue and from the set of runs that are waiting for their next try.
local function leaveLine(runId, pipeline)
  redis.call('ZREM', prefix .. 'queued', runId)
  redis.call('SREM', prefix .. 'queued:' .. pipeline, runId)
  redis.call('ZREM', prefix .. 'retrying:' .. pipeline, runId)
  if redis.call('HGET', prefix .. 'blocking', pipeline) == runId then
    redis.call('HDEL', prefix .. 'blocking', pipeline)
  end
end

-- Records that a run is running.
local function enterRunning(runId, pipeline)
  redis.call('SADD', prefix .. 'running', runId)
  redis.call('HSET', prefix .. 'active', pipeline, runId)
end

-- Records that a run is no longer running.
local function leaveRunning(runId, pipeline)
  redis.call('SREM', prefix .. 'running', runId)
  if redis.call('HGET', prefix .. 'active', pipeline) == runId then
    redis.call('HDEL', prefix .. 'active', pipeline)
  end
end

-- Reports whether a live worker is running a run of the pipeline.
local function isHeld(pipeline)
  local runId = redis.call('HGET', prefix .. 'active', pipeline)
  if not runId then return false end
  local held, holdMs = unpack(fieldsOf(runId, 'held', 'hold'))
  local leftMs = number(held) - now
  -- The remaining time is too long if Redis's clock was set back.
  return leftMs > 0 and leftMs <= (holdMs ~= '' and number(holdMs) or leftMs)
end

-- Returns the milliseconds until a run's next try is due. Returns 0 if it is due or the run is not waiting
-- for one.
local function dueIn(runId, pipeline)
  local due = redis.call('ZSCORE', prefix .. 'retrying:' .. pipeline, runId)
  return due and math.max(0, number(due) - now) or 0
end

-- Records the end of an attempt, for `pace`.
local function noteEnd(pipeline, maxEnds)
  for _, ended in ipairs({prefix .. 'ends', prefix .. 'ends:' .. pipeline}) do
    redis.call('LPUSH', ended, now)
    redis.call('LTRIM', ended, 0, maxEnds - 1)
  end
end

-- Changes the total size of the kept bundles.
local function addKept(bytes)
  local total = number(redis.call('GET', prefix .. 'kept-bytes')) + bytes
  redis.call('SET', prefix .. 'kept-bytes', string.format('%.0f', total))
end

-- Records that a run no longer owns its bundle.
local function unkeep(runId)
  local run = prefix .. 'run:' .. runId
  if redis.call('ZREM', prefix .. 'kept', runId) == 1 then
    addKept(-number(fieldOf(runId, 'bytes')))
  end
  redis.call('HSET', run, 'bundle', 'gone')
end

-- Records that the run can no longer be rerun.
local function notRerunnable(runId)
  local changed, count = string.gsub(fieldOf(runId, 'record'), '"rerunnable":true', '"rerunnable":false', 1)
  if count == 1 then saveRecord(runId, changed) end
end

-- Marks a run's archive for removal by any host. Another program may have changed the job.
local function unwant(runId)
  local archive = objectOf(fieldOf(runId, 'job'))['archive']
  if type(archive) == 'table' and type(archive['name']) == 'string' then
    redis.call('ZADD', prefix .. 'unwanted', now, archive['name'])
  end
end

-- Records the end of a run. Its record and its key expire after the retention period. `bytes` is the size of
-- its kept bundle, or '' if the bundle is not kept.
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

-- Counts the slots and the queued runs of a pipeline.
local function waitingOf(pipeline)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slots:' .. pipeline, '-inf', now)
  return redis.call('ZCARD', prefix .. 'slots:' .. pipeline) + redis.call('SCARD', prefix .. 'queued:' .. pipeline)
end

-- Returns a run's record, or '' if the run is unknown or has expired.
local function recordOf(runId)
  local known = fieldsOf(runId, 'record', 'expires')
  local isGone = known[2] ~= '' and number(known[2]) <= now
  return isGone and '' or known[1]
end

-- Returns why no slot is free: 'full' or 'pipeline_full'. Returns nil if one is free. If `maxWaiting` is nil,
-- there is no limit per pipeline.
local function noSlot(pipeline, queueSize, maxWaiting)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slots', '-inf', now)
  if redis.call('ZCARD', prefix .. 'slots') + redis.call('ZCARD', prefix .. 'queued') >= queueSize then
    return 'full'
  end
  if maxWaiting and waitingOf(pipeline) >= maxWaiting then return 'pipeline_full' end
end

-- Returns the digest and the run of a used Idempotency-Key. Returns nil for any other value.
local function usedKey(value)
  return string.match(value, '^u (%S+) (.+)$')
end

local function isStaging(value)
  return value and string.sub(value, 1, 2) == 's '
end
