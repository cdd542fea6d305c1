import { createHash } from 'node:crypto';
import type { Digest } from '../../core/digest.ts';
import type { RedisLink } from './link.ts';
import { runScript, type ScriptName } from './scripts.ts';
import type { PublishJob } from '../job.ts';
import type { RunRecord } from '../run-record.ts';

/**
 * The state that all hosts share, as calls. Each is one step in Redis; each throws `queue_unavailable` where
 * Redis is away.
 */
export interface RunStore {
  reserve(slot: Slot, queueSize: number): Promise<'ok' | 'full' | 'busy'>;
  /** Says that whoever receives the upload is alive. */
  renew(slot: Slot, staged: string | null): Promise<void>;
  release(slot: Slot): Promise<void>;
  /** Makes a name in shared staging known before anything is written under it. */
  stage(staged: string): Promise<void>;
  /** What became of the key's first upload, where that was accepted. */
  replay(slot: Slot, digest: Digest): Promise<Replay | null>;
  accept(
    slot: Slot,
    job: PublishJob,
    record: RunRecord,
    digest: Digest,
    staged: string | null,
  ): Promise<Replay | { outcome: 'ok' | 'busy' | 'swept' }>;
  /** Run ids of accepted runs that may not have reached BullMQ, in the order of acceptance. */
  outbox(pipelineId: string): Promise<string[]>;
  outboxes(): Promise<string[]>;
  handedOver(pipelineId: string, runIds: readonly string[]): Promise<void>;
  /** Null where the run is over, or unknown. */
  take(runId: string, owner: string): Promise<Taken | null>;
  /** These three do nothing and answer false where the run has come to another owner. */
  save(owner: string, record: RunRecord): Promise<boolean>;
  finish(owner: string, record: RunRecord, retentionMs: number): Promise<boolean>;
  giveBack(owner: string, record: RunRecord): Promise<boolean>;
  find(runId: string): Promise<RunRecord | undefined>;
  list(pipelineId: string): Promise<RunRecord[]>;
  depth(): Promise<{ reserved: number; queued: number; running: number }>;
  expired(most: number): Promise<{ runId: string; job: PublishJob | null }[]>;
  forget(runId: string): Promise<void>;
  /** Names in shared staging of uploads that were never accepted and whose API is gone. */
  unwanted(most: number): Promise<string[]>;
  forgetStaged(staged: string): Promise<void>;
  /** Keeps, or takes again, BullMQ's lock on a job; false where another worker has the job. */
  hold(lock: JobLock, ms: number): Promise<boolean>;
}

export interface Slot {
  id: string;
  /** The Idempotency-Key with its scope, hashed; '' where there is none. */
  key: string;
}

export type Replay = { outcome: 'conflict' } | { outcome: 'replay'; record: RunRecord };

export interface Taken {
  record: RunRecord;
  job: PublishJob;
  /** How often a worker has begun it, this time included. */
  takes: number;
}

export interface JobLock {
  lockKey: string;
  activeKey: string;
  stalledKey: string;
  token: string;
  jobId: string;
}

/**
 * An archive in shared staging outlives the last sign of whoever put it there by so many times as slots and
 * keys do: bytes go with it.
 */
const stagedLives = 20;

export function scopeKey(
  pipelineId: string,
  idempotency: { caller: string; key: string } | undefined,
): string {
  if (idempotency === undefined) return '';
  const scope = JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
  return createHash('sha256').update(scope).digest('hex');
}

/** `slotLifeMs`: an API that was not heard of for so long counts as dead, and its slots and keys are free. */
export function runStore(link: RedisLink, prefix: string, slotLifeMs: number): RunStore {
  const stagedLifeMs = stagedLives * slotLifeMs;
  const { redis } = link;
  const run = (name: ScriptName, ...args: (string | number)[]): Promise<unknown> =>
    link.ask(() => runScript(redis, name, [prefix, ...args]));
  const at = (name: string): string => `${prefix}:${name}`;
  return {
    reserve: async ({ id, key }, queueSize) =>
      (await run('reserve', id, queueSize, slotLifeMs, key)) as 'ok' | 'full' | 'busy',
    renew: async ({ id, key }, staged) => {
      await run('renew', id, slotLifeMs, key, staged ?? '', stagedLifeMs);
    },
    release: async ({ id, key }) => {
      await run('release', id, key);
    },
    stage: async (staged) => {
      await run('stage', staged, stagedLifeMs);
    },
    replay: async ({ key }, digest) => {
      if (key === '') return null;
      const [outcome, record] = (await run('replay', key, digest)) as string[];
      return outcome === undefined ? null : replayOf(outcome, record);
    },
    accept: async ({ id, key }, job, record, digest, staged) => {
      const { runId, pipelineId } = job;
      const texts = [JSON.stringify(job), JSON.stringify(record)];
      const answer = await run('accept', id, key, digest, runId, pipelineId, ...texts, staged ?? '');
      const [outcome, first] = answer as [string, string?];
      return outcome === 'ok' || outcome === 'busy' || outcome === 'swept'
        ? { outcome }
        : replayOf(outcome, first);
    },
    outbox: (pipelineId) => link.ask(() => redis.zrange(at(`outbox:${pipelineId}`), '0', '-1')),
    outboxes: () => link.ask(() => redis.smembers(at('outboxes'))),
    handedOver: async (pipelineId, runIds) => {
      await run('handedOver', pipelineId, ...runIds);
    },
    take: async (runId, owner) => {
      const [record, job, takes] = (await run('take', runId, owner)) as string[];
      if (record === undefined || job === undefined) return null;
      return { record: recordOf(record), job: jobOf(job), takes: Number(takes) };
    },
    save: async (owner, record) => (await run('save', record.run_id, owner, JSON.stringify(record))) === 1,
    finish: async (owner, record, retentionMs) =>
      (await run('finish', record.run_id, owner, JSON.stringify(record), retentionMs)) === 1,
    giveBack: async (owner, record) =>
      (await run('giveBack', record.run_id, owner, JSON.stringify(record))) === 1,
    find: async (runId) => {
      const [record = ''] = (await run('find', runId)) as string[];
      return record === '' ? undefined : recordOf(record);
    },
    list: async (pipelineId) => {
      const ids = await link.ask(() => redis.zrevrange(at(`runs:${pipelineId}`), 0, -1));
      const records = (await run('find', ...ids)) as string[];
      return records.filter((record) => record !== '').map((record) => recordOf(record));
    },
    depth: async () => {
      const [reserved = 0, queued = 0, running = 0] = (await run('depth')) as number[];
      return { reserved, queued, running };
    },
    expired: async (most) => {
      const found = (await run('expired', most)) as string[];
      return found.flatMap((runId, index) =>
        index % 2 === 0 ? [{ runId, job: optionalJob(found[index + 1]) }] : [],
      );
    },
    forget: async (runId) => {
      await run('forget', runId);
    },
    unwanted: async (most) => (await run('unwanted', most)) as string[],
    forgetStaged: async (staged) => {
      await link.ask(() => redis.zrem(at('unwanted'), staged));
    },
    hold: async ({ lockKey, activeKey, stalledKey, token, jobId }, ms) =>
      (await run('hold', lockKey, activeKey, stalledKey, token, ms, jobId)) === 1,
  };
}

function replayOf(outcome: string, record: string | undefined): Replay {
  return outcome === 'replay' && record !== undefined
    ? { outcome, record: recordOf(record) }
    : { outcome: 'conflict' };
}

// Only this file writes these values.
const recordOf = (text: string): RunRecord => JSON.parse(text) as RunRecord;
const jobOf = (text: string): PublishJob => JSON.parse(text) as PublishJob;
const optionalJob = (text = ''): PublishJob | null => (text === '' ? null : jobOf(text));
