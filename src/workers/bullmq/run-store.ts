import { createHash } from 'node:crypto';
import type { Digest } from '../../core/lib/digest.ts';
import type { PublishJob } from '../queue/job.ts';
import type { AdmissionRequest, QueueDepth } from '../queue/job-queue.ts';
import { maxEndTimes, type QueueLoad } from '../queue/refusals.ts';
import type { DeliveryNote, RunRecord } from '../queue/run-record.ts';
import { acceptedRun } from '../queue/run-transitions.ts';
import { type TriggerStore, triggerStore } from './bullmq-triggers.ts';
import { deliveryNotes } from './deliveries.ts';
import { endedJob, type JobSeal, jobSeal, unreadable } from './job-seal.ts';
import type { RedisLink } from './link.ts';
import { type OutboxStore, outboxStore } from './outboxes.ts';
import { ReplicaConfirmation, unconfirmedForMs } from './replica-confirmation.ts';
import { optionalRecord, requiredRecord, type RunReads, runReads } from './run-reads.ts';
import {
  type RerunStore,
  rerunStore,
  type RetryStore,
  retryStore,
  type SteeringStore,
  steeringStore,
} from './run-steering.ts';
import { defineScripts, type RunScript } from './scripts.ts';

/**
 * The state that all hosts share. Every call is a single atomic step in Redis, and throws `queue_unavailable`
 * while Redis is unreachable.
 */
export interface RunStore extends SteeringStore, TriggerStore, OutboxStore, RerunStore, RetryStore, RunReads {
  /** See `JobQueue.noteDelivery`. */
  noteDelivery(runId: string, note: DeliveryNote): Promise<void>;
  /**
   * Reserves an upload slot and the request's Idempotency-Key. Returns `used` if a run was already accepted
   * with this key, in which case there is no need for a slot. Returns `full` if all slots are taken,
   * `pipeline_full` if the pipeline already has `maxWaiting` uploads and waiting runs, and `busy` if another
   * upload with the same key is in progress.
   */
  reserve(slot: Slot, limits: { queueSize: number; maxWaiting: number | null }): Promise<Reservation>;
  /** Extends the lifetimes of the slot, its key, and the name `staged`. */
  renew(slot: Slot, staged: string | null): Promise<void>;
  release(slot: Slot): Promise<void>;
  /** Registers a name in shared staging. Must be called before anything is written under that name. */
  stage(staged: string): Promise<void>;
  /**
   * Returns the run that was already accepted with this key. Returns null if there isn't one, or if it failed
   * and the request asked to rerun failed runs.
   */
  replay(slot: Slot, digest: Digest): Promise<Replay | null>;
  /**
   * Turns the slot into a queued run. Returns `swept` if the staged archive was already considered abandoned.
   */
  accept(
    slot: Slot,
    job: PublishJob,
    record: RunRecord,
    digest: Digest,
    staged: string | null,
  ): Promise<Replay | { outcome: 'ok'; position: number } | { outcome: 'busy' | 'swept' }>;
  /**
   * Resolves once the run survives a failover (see `ReplicaConfirmation`). Throws `queue_unavailable` if no
   * replica confirms it.
   */
  confirm(runId: string): Promise<void>;
  /** Asks for replicas if they were silent. Called once per second. */
  checkReplicas(): void;
  /** Deletes an accepted run that was not confirmed. Does nothing if it may have been handed over. */
  retract(runId: string): Promise<void>;
  /**
   * Makes `owner` the owner of a run. Returns null if the run is finished, `paused` if its pipeline is
   * paused, `held` if another worker is running it, and an `EarlyRun` if its next attempt isn't due yet.
   */
  take(
    run: { runId: string; pipelineId: string },
    owner: string,
    at: Date,
  ): Promise<TakenRun | Rejected | EarlyRun | 'unknown' | 'paused' | 'held' | null>;
  /**
   * `save`, `finish`, and `requeue` do nothing and return false if the run belongs to a different owner.
   *
   * `bytes` is the size of the bundle kept for reruns, or null if it isn't kept.
   */
  save(owner: string, record: RunRecord): Promise<boolean>;
  finish(
    owner: string,
    record: RunRecord,
    end: { retentionMs: number; bytes: number | null },
  ): Promise<boolean>;
  requeue(owner: string, record: RunRecord): Promise<boolean>;
  depth(): Promise<QueueDepth>;
  /** Returns how fast a pipeline works through its runs. If the id is null, covers all pipelines. */
  pace(pipelineId: string | null): Promise<QueueLoad>;
  /** Returns up to `limit` finished runs whose retention period is over. */
  expired(limit: number): Promise<{ runId: string; job: PublishJob | null }[]>;
  forget(runId: string): Promise<void>;
  /** Returns up to `limit` archives that were staged by an API that died before the upload was accepted. */
  unwanted(limit: number): Promise<string[]>;
  forgetStaged(staged: string): Promise<void>;
  /**
   * Renews a worker's hold on a run for `ms` milliseconds. Returns false if another worker has claimed the
   * run.
   */
  hold(runId: string, owner: string, ms: number): Promise<boolean>;
  /** Returns which of the given pipelines may have a run to start. */
  waiting(pipelineIds: readonly string[]): Promise<string[]>;
}

export type Reservation = 'ok' | 'used' | 'full' | 'pipeline_full' | 'busy';

export interface Slot {
  id: string;
  pipelineId: string;
  /** The hash of the Idempotency-Key and its scope, or '' if the request has no key. */
  key: string;
  /** True if this request may reuse the key when the earlier run with it has failed. */
  rerunFailed: boolean;
}

export type Replay =
  { outcome: 'conflict' } | { outcome: 'replay'; record: RunRecord; position: number | null };

/** A run whose job isn't authentic. The caller should end the run with this error. */
export interface Rejected {
  record: RunRecord;
  rejection: unknown;
}

export interface TakenRun {
  record: RunRecord;
  job: PublishJob;
  /** True if the run was cancelled while no worker was running it. The caller should then end it. */
  isCancelled: boolean;
  /** The number of times that workers have claimed this run, including this time. */
  takes: number;
  /** The time at which a worker first claimed the run (RFC 3339), or null if this is the first time. */
  begunAt: string | null;
}

/** A run whose next attempt isn't due for another `pauseMs` milliseconds. */
export interface EarlyRun {
  pauseMs: number;
  /** True if the pipeline's later runs have to wait for this one. */
  blocks: boolean;
}

/**
 * How long an archive survives in shared staging after its API died, as a multiple of the slot lifetime. It
 * outlives the slot so that clients don't have to upload everything again.
 */
const stagedLives = 20;

/** Hashes the Idempotency-Key, with the same result on every host. Returns '' if there is no key. */
export function scopeKey(pipelineId: string, idempotency: AdmissionRequest['idempotency']): string {
  if (idempotency === undefined) return '';
  const scope = JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
  return createHash('sha256').update(scope).digest('hex');
}

/**
 * @param slotLifeMs An API that hasn't renewed its slots for this many milliseconds is considered dead, and
 * its slots and keys are freed.
 */
export function runStore(
  link: RedisLink,
  prefix: string,
  slotLifeMs: number,
  seal: JobSeal = jobSeal(),
): RunStore {
  const { redis } = link;
  const script = defineScripts(redis, prefix);
  const run: RunScript = (...call) => link.ask(() => script(...call));
  const confirmation = new ReplicaConfirmation(link, prefix);
  const at = (name: string): string => `${prefix}:${name}`;
  return {
    ...steeringStore(link, run, at('paused')),
    ...triggerStore(link, run, at, seal),
    ...outboxStore(link, run, at),
    ...runReads(run),
    ...rerunStore(link, run, at, seal),
    ...retryStore(run, seal),
    ...slotStore(run, slotLifeMs, seal, confirmation.isNeeded ? unconfirmedForMs : 0),
    confirm: (runId) => confirmation.confirm(runId),
    checkReplicas: () => confirmation.check(),
    ...ownedRuns(run, seal),
    noteDelivery: deliveryNotes(link, run, at),
    depth: async () => {
      const [reserved = 0, queued = 0, running = 0] = (await run('depth', {})) as number[];
      return { reserved, queued, running };
    },
    pace: async (pipelineId) => {
      const answer = (await run('pace', { pipeline: pipelineId ?? '' })) as string[];
      const [now = 0, waiting = 0, isPaused = 0, ...ends] = answer.map(Number);
      return { now, waiting, isPaused: isPaused === 1, endedAt: ends.reverse().filter(Number.isFinite) };
    },
    expired: async (limit) => {
      const found = (await run('expired', { limit })) as string[];
      return found.flatMap((runId, index) =>
        index % 2 === 0 ? [{ runId, job: endedJob(found[index + 1] ?? '') }] : [],
      );
    },
    forget: async (runId) => {
      await run('forget', { runId });
    },
    unwanted: async (limit) => (await run('unwanted', { limit })) as string[],
    forgetStaged: async (staged) => {
      await link.ask(() => redis.zrem(at('unwanted'), staged));
    },
    waiting: async (pipelineIds) => (await run('waiting', {}, pipelineIds)) as string[],
  };
}

type SlotStore = Pick<RunStore, 'reserve' | 'renew' | 'release' | 'stage' | 'replay' | 'accept' | 'retract'>;

/**
 * Manages uploads until they are accepted.
 *
 * @param unconfirmedMs How long an accepted run waits for its confirmation, or 0 if it needs none.
 */
function slotStore(run: RunScript, slotLifeMs: number, seal: JobSeal, unconfirmedMs: number): SlotStore {
  const stagedLifeMs = stagedLives * slotLifeMs;
  return {
    reserve: async ({ id, pipelineId, key, rerunFailed }, { queueSize, maxWaiting }) =>
      (await run('reserve', {
        slot: id,
        queueSize,
        lifeMs: slotLifeMs,
        key,
        rerunFailed: Number(rerunFailed),
        pipeline: pipelineId,
        maxWaiting: maxWaiting ?? '',
      })) as Reservation,
    renew: async ({ id, key, pipelineId: pipeline }, staged) => {
      const lives = { lifeMs: slotLifeMs, stagedLifeMs };
      await run('renew', { slot: id, key, staged: staged ?? '', pipeline, ...lives });
    },
    release: async ({ id, key, pipelineId: pipeline }) => {
      await run('release', { slot: id, lifeMs: slotLifeMs, key, pipeline });
    },
    stage: async (staged) => {
      await run('stage', { staged, stagedLifeMs });
    },
    replay: async ({ key, rerunFailed }, digest) => {
      if (key === '') return null;
      const answer = await run('replay', { key, digest, rerunFailed: Number(rerunFailed) });
      const [outcome, record, position] = answer as string[];
      return outcome === undefined ? null : replayOf(outcome, record, position);
    },
    accept: async ({ id, key, rerunFailed }, job, record, digest, staged) => {
      const answer = await run('accept', {
        slot: id,
        lifeMs: slotLifeMs,
        key,
        digest,
        runId: job.runId,
        pipeline: job.pipelineId,
        job: seal.seal(job),
        record: JSON.stringify(record),
        staged: staged ?? '',
        rerunFailed: Number(rerunFailed),
        unconfirmedMs,
      });
      const [outcome, ...rest] = answer as [string, ...string[]];
      if (outcome === 'ok') return { outcome, position: Number(rest[0]) };
      return outcome === 'busy' || outcome === 'swept' ? { outcome } : replayOf(outcome, ...rest);
    },
    retract: async (runId) => {
      await run('retract', { runId });
    },
  };
}

type OwnedRuns = Pick<RunStore, 'take' | 'save' | 'finish' | 'requeue' | 'hold'>;

/** Manages the runs that a worker has claimed. */
function ownedRuns(run: RunScript, seal: JobSeal): OwnedRuns {
  return {
    take: async ({ runId, pipelineId }, owner, at) => {
      const args = { runId, owner, at: at.toISOString(), pipeline: pipelineId };
      const answer = (await run('take', args)) as string[];
      const [outcome, text = '', job = '', takes, begun = ''] = answer;
      if (outcome === 'unknown' || outcome === 'paused' || outcome === 'held') return outcome;
      if (outcome === 'early') return { pauseMs: Number(text), blocks: job === '1' };
      if (outcome === undefined) return null;
      const isCancelled = outcome === 'cancelled';
      const begunAt = Number.isNaN(Date.parse(begun)) ? null : begun;
      const record = optionalRecord(text);
      try {
        const opened = seal.open(job, { runId, pipelineId });
        if (record === null) throw unreadable('record');
        return { record, job: opened, isCancelled, takes: Number(takes), begunAt };
      } catch (rejection) {
        const first = acceptedRun({ runId, pipelineId, staged: null }, at);
        return { record: { ...(record ?? first), run_id: runId, pipeline_id: pipelineId }, rejection };
      }
    },
    save: async (owner, record) => (await run('save', owned(owner, record))) === 1,
    finish: async (owner, record, { retentionMs, bytes }) => {
      const args = { ...owned(owner, record), retentionMs, maxEnds: maxEndTimes, bytes: bytes ?? '' };
      return (await run('finish', args)) === 1;
    },
    requeue: async (owner, record) => (await run('giveBack', owned(owner, record))) === 1,
    hold: async (runId, owner, holdMs) => (await run('hold', { runId, owner, holdMs })) === 1,
  };
}

function owned(owner: string, record: RunRecord): { runId: string; owner: string; record: string } {
  return { runId: record.run_id, owner, record: JSON.stringify(record) };
}

function replayOf(outcome: string, record?: string, position?: string | null): Replay {
  return outcome === 'replay' && record !== undefined
    ? { outcome, record: requiredRecord(record), position: position == null ? null : Number(position) }
    : { outcome: 'conflict' };
}
