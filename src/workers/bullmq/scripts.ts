import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';

/*
 * Everything that has to happen in one step whatever other hosts do, as Lua. `ARGV[1]` is the prefix of all
 * keys, and times are Redis's own.
 *
 *   run:<id>          hash: pipeline, seq, state (queued | running | finished), job, record, key, digest,
 *                     owner, takes, expires
 *   runs:<pipeline>   sorted set of run ids by seq: the order of acceptance
 *   queued, running   sorted set by seq, set: where the runs stand
 *   outbox:<pipeline> sorted set by seq: accepted runs that may not be in BullMQ's queue yet
 *   outboxes          set of the pipelines that have some
 *   finished          sorted set of run ids by the time at which they expire
 *   slots             sorted set of uploads being received, by the time at which their API is given up
 *   staging           sorted set of names in shared staging that belong to no run yet, by the time at which
 *                     nobody wants them any more
 *   unwanted          sorted set of such names that are to be removed, after which they are forgotten
 *   key:<hash>        an Idempotency-Key: `s <slot>` while its upload is staged, then `u <digest> <run id>`
 */
const head = `
local p = ARGV[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function forgetKey(key, value)
  if key ~= '' and redis.call('GET', p .. 'key:' .. key) == value then redis.call('DEL', p .. 'key:' .. key) end
end
local function isStaging(value) return value and string.sub(value, 1, 2) == 's ' end
`;

const sources = {
  /** slot, queue size, milliseconds to live, key or '' → ok | full | busy */
  reserve: `
redis.call('ZREMRANGEBYSCORE', p .. 'slots', '-inf', now)
if redis.call('ZCARD', p .. 'slots') + redis.call('ZCARD', p .. 'queued') >= tonumber(ARGV[3]) then return 'full' end
if ARGV[5] ~= '' then
  local known = redis.call('GET', p .. 'key:' .. ARGV[5])
  if isStaging(known) then return 'busy' end
  if not known then redis.call('SET', p .. 'key:' .. ARGV[5], 's ' .. ARGV[2], 'PX', ARGV[4]) end
end
redis.call('ZADD', p .. 'slots', now + ARGV[4], ARGV[2])
return 'ok'`,

  /** slot, milliseconds to live, key or '', name in staging or '', milliseconds until that is unwanted */
  renew: `
redis.call('ZADD', p .. 'slots', now + ARGV[3], ARGV[2])
if ARGV[4] ~= '' then
  local key = p .. 'key:' .. ARGV[4]
  local known = redis.call('GET', key)
  if not known or known == 's ' .. ARGV[2] then redis.call('SET', key, 's ' .. ARGV[2], 'PX', ARGV[3]) end
end
if ARGV[5] ~= '' then redis.call('ZADD', p .. 'staging', 'XX', now + ARGV[6], ARGV[5]) end
return 'ok'`,

  /** slot, key or '' */
  release: `
redis.call('ZREM', p .. 'slots', ARGV[2])
forgetKey(ARGV[3], 's ' .. ARGV[2])
return 'ok'`,

  /** name, milliseconds until nobody wants it */
  stage: `
redis.call('ZADD', p .. 'staging', now + ARGV[3], ARGV[2])
return 'ok'`,

  /** key, digest → nothing | conflict | its run's record */
  replay: `
local known = redis.call('GET', p .. 'key:' .. ARGV[2])
if not known or isStaging(known) then return {} end
local digest, id = string.match(known, '^u (%S+) (.+)$')
local record = redis.call('HGET', p .. 'run:' .. id, 'record')
if not record then return {} end
if digest ~= ARGV[3] then return {'conflict'} end
return {'replay', record}`,

  /**
   * slot, key or '', digest, run id, pipeline, job, record, name in staging or '' → ok | replay, record |
   * conflict | busy | swept
   */
  accept: `
local slot, key, digest, id, pipeline, name = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[9]
local run = p .. 'run:' .. id
-- Sent again because its answer was lost: it is the same acceptance.
if redis.call('EXISTS', run) == 1 then return {'ok'} end
redis.call('ZREM', p .. 'slots', slot)
if key ~= '' then
  local known = redis.call('GET', p .. 'key:' .. key)
  if isStaging(known) and known ~= 's ' .. slot then return {'busy'} end
  if known and not isStaging(known) then
    local used, first = string.match(known, '^u (%S+) (.+)$')
    local record = redis.call('HGET', p .. 'run:' .. first, 'record')
    if record and used ~= digest then return {'conflict'} end
    if record then return {'replay', record} end
  end
end
if name ~= '' and redis.call('ZREM', p .. 'staging', name) == 0 then
  forgetKey(key, 's ' .. slot)
  return {'swept'}
end
local seq = redis.call('INCR', p .. 'seq')
redis.call('HSET', run, 'pipeline', pipeline, 'seq', seq, 'state', 'queued', 'job', ARGV[7], 'record', ARGV[8],
  'key', key, 'digest', digest, 'owner', '', 'takes', 0)
redis.call('ZADD', p .. 'runs:' .. pipeline, seq, id)
redis.call('ZADD', p .. 'queued', seq, id)
redis.call('ZADD', p .. 'outbox:' .. pipeline, seq, id)
redis.call('SADD', p .. 'outboxes', pipeline)
if key ~= '' then redis.call('SET', p .. 'key:' .. key, 'u ' .. digest .. ' ' .. id) end
return {'ok'}`,

  /** pipeline, run ids … that are in BullMQ's queue now */
  handedOver: `
local outbox = p .. 'outbox:' .. ARGV[2]
for i = 3, #ARGV do redis.call('ZREM', outbox, ARGV[i]) end
if redis.call('EXISTS', outbox) == 0 then redis.call('SREM', p .. 'outboxes', ARGV[2]) end
return 'ok'`,

  /** run id, owner → nothing where it is over or unknown | record, job, how often it was taken */
  take: `
local run = p .. 'run:' .. ARGV[2]
local known = redis.call('HMGET', run, 'state', 'record', 'job')
if not known[1] or known[1] == 'finished' then return {} end
redis.call('HSET', run, 'state', 'running', 'owner', ARGV[3])
redis.call('ZREM', p .. 'queued', ARGV[2])
redis.call('SADD', p .. 'running', ARGV[2])
return {known[2], known[3], tostring(redis.call('HINCRBY', run, 'takes', 1))}`,

  /** run id, owner, record → 1 | 0 where the run is not this owner's */
  save: `
local run = p .. 'run:' .. ARGV[2]
local known = redis.call('HMGET', run, 'owner', 'state')
if known[1] ~= ARGV[3] or known[2] ~= 'running' then return 0 end
redis.call('HSET', run, 'record', ARGV[4])
return 1`,

  /** run id, owner, record, milliseconds of retention → 1 | 0 where the run is not this owner's */
  finish: `
local run = p .. 'run:' .. ARGV[2]
local known = redis.call('HMGET', run, 'owner', 'state', 'key', 'digest')
if known[1] ~= ARGV[3] then return 0 end
if known[2] == 'finished' then return 1 end
redis.call('HSET', run, 'record', ARGV[4], 'state', 'finished', 'expires', now + ARGV[5])
redis.call('SREM', p .. 'running', ARGV[2])
redis.call('ZADD', p .. 'finished', now + ARGV[5], ARGV[2])
if known[3] ~= '' then
  local key = p .. 'key:' .. known[3]
  if redis.call('GET', key) == 'u ' .. known[4] .. ' ' .. ARGV[2] then redis.call('PEXPIRE', key, ARGV[5]) end
end
return 1`,

  /** run id, owner, record: back to where it was before it was taken → 1 | 0 */
  giveBack: `
local run = p .. 'run:' .. ARGV[2]
local known = redis.call('HMGET', run, 'owner', 'state', 'seq')
if known[1] ~= ARGV[3] or known[2] ~= 'running' then return 0 end
redis.call('HSET', run, 'record', ARGV[4], 'state', 'queued', 'owner', '')
redis.call('HINCRBY', run, 'takes', -1)
redis.call('SREM', p .. 'running', ARGV[2])
redis.call('ZADD', p .. 'queued', known[3], ARGV[2])
return 1`,

  /** run ids … → record or '' of each */
  find: `
local records = {}
for i = 2, #ARGV do
  local known = redis.call('HMGET', p .. 'run:' .. ARGV[i], 'record', 'expires')
  local gone = not known[1] or (known[2] and tonumber(known[2]) <= now)
  records[#records + 1] = gone and '' or known[1]
end
return records`,

  /** → reserved, queued, running */
  depth: `
return {redis.call('ZCOUNT', p .. 'slots', '(' .. now, '+inf'), redis.call('ZCARD', p .. 'queued'), redis.call('SCARD', p .. 'running')}`,

  /** how many at most → run id, job, … of runs that have expired */
  expired: `
local due = redis.call('ZRANGEBYSCORE', p .. 'finished', '-inf', now, 'LIMIT', 0, ARGV[2])
local found = {}
for _, id in ipairs(due) do
  found[#found + 1] = id
  found[#found + 1] = redis.call('HGET', p .. 'run:' .. id, 'job') or ''
end
return found`,

  /** run id */
  forget: `
local run = p .. 'run:' .. ARGV[2]
local known = redis.call('HMGET', run, 'pipeline', 'key', 'digest')
if known[1] then
  redis.call('ZREM', p .. 'runs:' .. known[1], ARGV[2])
  forgetKey(known[2], 'u ' .. known[3] .. ' ' .. ARGV[2])
end
redis.call('ZREM', p .. 'finished', ARGV[2])
redis.call('DEL', run)
return 'ok'`,

  /** how many at most → names in staging that nobody wants; from now on no run can take them over */
  unwanted: `
local due = redis.call('ZRANGEBYSCORE', p .. 'staging', '-inf', now, 'LIMIT', 0, ARGV[2])
for _, name in ipairs(due) do
  redis.call('ZREM', p .. 'staging', name)
  redis.call('ZADD', p .. 'unwanted', now, name)
end
return redis.call('ZRANGE', p .. 'unwanted', 0, ARGV[2] - 1)`,

  /**
   * BullMQ's lock, its list of active jobs, its set of stalled ones; token, milliseconds, job → 1 | 0. Like
   * BullMQ's own extension, and besides takes a lock again that ran out while Redis was away and that nobody
   * has taken since: the job is still where its worker put it.
   */
  hold: `
local held = redis.call('GET', ARGV[2])
if held ~= ARGV[5] and (held or not redis.call('LPOS', ARGV[3], ARGV[7])) then return 0 end
redis.call('SET', ARGV[2], ARGV[5], 'PX', ARGV[6])
redis.call('SREM', ARGV[4], ARGV[7])
return 1`,
} as const;

export type ScriptName = keyof typeof sources;

const scripts = Object.fromEntries(
  Object.entries(sources).map(([name, source]) => {
    const text = head + source;
    return [name, { text, sha: createHash('sha1').update(text).digest('hex') }];
  }),
) as Record<ScriptName, { text: string; sha: string }>;

/** Runs a script by its hash, and sends it where this Redis has not seen it yet. */
export async function runScript(
  redis: Redis,
  name: ScriptName,
  args: readonly (string | number)[],
): Promise<unknown> {
  const { sha, text } = scripts[name];
  try {
    return await redis.evalsha(sha, 0, ...args);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return redis.eval(text, 0, ...args);
  }
}
