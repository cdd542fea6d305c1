import { createHash } from 'node:crypto';
import type { Digest } from '../../core/lib/digest.ts';
import { withoutBundle } from '../queue/bundle-retention.ts';
import type { PublishJob, Trigger } from '../queue/job.ts';
import type { AdmissionRequest } from '../queue/job-queue.ts';
import type { RunRecord } from '../queue/run-record.ts';
import type { Decision, TriggeredJob, TriggerKind } from '../queue/trigger.ts';
import type { JobSeal } from './job-seal.ts';
import type { RedisLink } from './link.ts';
import { requiredRecord } from './run-reads.ts';
import { isTrigger, jsonOf } from './shapes.ts';

export interface Slot {
  id: string;
  pipelineId: string;
  /** The hash of the Idempotency-Key and its scope, or '' if the request has no key. */
  key: string;
  /** True if this request may reuse the key when the earlier run with it has failed. */
  rerunFailed: boolean;
}

export interface SlotLimits {
  queueSize: number;
  /** The same limit for the slot's pipeline, or null if it has none of its own. */
  maxWaiting: number | null;
}

/** The position is null if the run was accepted by an earlier version. */
export type Replay =
  { outcome: 'conflict' } | { outcome: 'replay'; record: RunRecord; position: number | null };
type Queued = { outcome: 'ok'; position: number } | Replay;
type Rerun = Queued | { outcome: 'unknown' | 'unfinished' | 'gone' | 'full' | 'pipeline_full' };

interface AdmissionStoreOptions {
  seal: JobSeal;
  /** Slots and keys that their API has not renewed for this many milliseconds are freed. */
  slotLifeMs: number;
  /** How long an accepted run waits for its confirmation, in milliseconds, or 0 if it needs none. */
  unconfirmedMs: number;
}

/** An archive outlives its slot this many times, so that clients do not have to upload everything again. */
const stagedLives = 20;

/** Stores uploads until they are accepted, and queues runs. Every call is a single atomic step in Redis. */
export class AdmissionStore {
  readonly #link: RedisLink;
  readonly #options: AdmissionStoreOptions;
  readonly #stagedLifeMs: number;

  constructor(link: RedisLink, options: AdmissionStoreOptions) {
    this.#link = link;
    this.#options = options;
    this.#stagedLifeMs = stagedLives * options.slotLifeMs;
  }

  /**
   * Reserves an upload slot and the request's Idempotency-Key. Returns `used` if a run was already accepted
   * with this key, in which case there is no need for a slot. Returns `full` if all slots are taken,
   * `pipeline_full` if the pipeline already has `maxWaiting` uploads and waiting runs, and `busy` if another
   * upload with the same key is in progress.
   */
  async reserve(slot: Slot, { queueSize, maxWaiting }: SlotLimits) {
    const answer = await this.#link.run('admission/reserve', {
      ...this.#argsOf(slot),
      rerunFailed: Number(slot.rerunFailed),
      queueSize,
      maxWaiting: maxWaiting ?? '',
    });
    return answer as 'ok' | 'used' | 'full' | 'pipeline_full' | 'busy';
  }

  /** Extends the lifetimes of the slot, its key, and the name `staged`. */
  async renew(slot: Slot, staged: string | null): Promise<void> {
    const args = { ...this.#argsOf(slot), staged: staged ?? '', stagedLifeMs: this.#stagedLifeMs };
    await this.#link.run('admission/renew', args);
  }

  async release(slot: Slot): Promise<void> {
    await this.#link.run('admission/release', this.#argsOf(slot));
  }

  /** Registers a name in shared staging. Must be called before anything is written under that name. */
  async stage(staged: string): Promise<void> {
    await this.#link.run('admission/stage', { staged, stagedLifeMs: this.#stagedLifeMs });
  }

  /**
   * Returns the run that was already accepted with this key. Returns null if there is not one, or if it
   * failed and the request asked to rerun failed runs.
   */
  async replay({ key, rerunFailed }: Slot, digest: Digest): Promise<Replay | null> {
    if (key === '') return null;
    const args = { key, digest, rerunFailed: Number(rerunFailed) };
    const [outcome, record, position] = (await this.#link.run('admission/replay', args)) as string[];
    return outcome === undefined ? null : replayOf(outcome, record, position);
  }

  /** Turns the slot into a queued run. Returns `swept` if the staged archive already counts as abandoned. */
  async accept(
    slot: Slot,
    job: PublishJob,
    record: RunRecord,
    digest: Digest,
    staged: string | null,
  ): Promise<Queued | { outcome: 'busy' | 'swept' }> {
    const answer = await this.#link.run('admission/accept', {
      ...this.#argsOf(slot),
      ...this.#argsOfRun(job, record),
      digest,
      staged: staged ?? '',
      rerunFailed: Number(slot.rerunFailed),
      unconfirmedMs: this.#options.unconfirmedMs,
    });
    const [outcome, ...rest] = answer as [string, ...string[]];
    if (outcome === 'ok') return { outcome, position: Number(rest[0]) };
    return outcome === 'busy' || outcome === 'swept' ? { outcome } : replayOf(outcome, ...rest);
  }

  /** Deletes an accepted run that was not confirmed. Does nothing if it may have been handed over. */
  async retract(runId: string): Promise<void> {
    await this.#link.run('admission/retract', { runId });
  }

  /**
   * Returns the job that the run was accepted with. If its bundle has been removed, the job no longer
   * includes it. Resolves with null if the run is unknown.
   */
  async jobOf(runId: string): Promise<PublishJob | null> {
    const job = await this.#link.ask(() => this.#link.redis.hget(this.#link.key(`run:${runId}`), 'job'));
    return job === null ? null : this.#options.seal.open(job, { runId });
  }

  /** Queues `job` as a rerun of `old`. */
  async rerun(
    old: PublishJob,
    job: PublishJob,
    queued: RunRecord,
    { queueSize, maxWaiting }: SlotLimits,
  ): Promise<Rerun> {
    const answer = await this.#link.run('runs/rerun', {
      ...this.#argsOfRun(job, queued),
      runId: old.runId,
      newRunId: job.runId,
      oldJob: this.#options.seal.seal(withoutBundle(old)),
      hasBundle: Number(old.staged !== null),
      queueSize,
      maxWaiting: maxWaiting ?? '',
    });
    const [outcome = 'unknown', ...rest] = answer as [Rerun['outcome']?, ...string[]];
    if (outcome === 'ok') return { outcome, position: Number(rest[0]) };
    return outcome === 'replay' ? replayOf(outcome, ...rest) : { outcome };
  }

  /** See `Triggers.last`. */
  async lastTrigger(pipelineId: string, kind: TriggerKind): Promise<Trigger | null> {
    const key = this.#link.key(`triggers:${kind}`);
    return triggerOf(await this.#link.ask(() => this.#link.redis.hget(key, pipelineId)));
  }

  /** Like `Triggers.decide`, except that the caller supplies the run's first record. */
  async trigger(
    job: TriggeredJob,
    record: RunRecord,
    { passes = false, latest = '' }: { passes?: boolean; latest?: string },
  ): Promise<Decision> {
    const trigger = JSON.stringify(job.trigger);
    const args = { ...this.#argsOfRun(job, record), trigger, passes: Number(passes), latest };
    const answer = await this.#link.run('admission/trigger', args);
    const [outcome, before] = answer as [Decision['outcome'], string?];
    if (outcome === 'known') return { outcome };
    const previous = triggerOf(before);
    return outcome === 'started' ? { outcome, record, previous } : { outcome, previous };
  }

  #argsOf({ id, key, pipelineId }: Slot) {
    return { slot: id, lifeMs: this.#options.slotLifeMs, key, pipeline: pipelineId };
  }

  #argsOfRun(job: PublishJob, record: RunRecord) {
    const { runId, pipelineId: pipeline } = job;
    return { runId, pipeline, job: this.#options.seal.seal(job), record: JSON.stringify(record) };
  }
}

/** Hashes the Idempotency-Key, with the same result on every host. Returns '' if there is no key. */
export function scopeKey({ pipelineId, idempotency }: AdmissionRequest): string {
  if (idempotency === undefined) return '';
  const scope = JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
  return createHash('sha256').update(scope).digest('hex');
}

function replayOf(outcome: string, record?: string, position?: string | null): Replay {
  return outcome === 'replay' && record !== undefined
    ? { outcome, record: requiredRecord(record), position: position == null ? null : Number(position) }
    : { outcome: 'conflict' };
}

/** Parses a stored trigger. Returns null if there is not one, or if another program has overwritten it. */
function triggerOf(text: string | null | undefined): Trigger | null {
  const value = jsonOf(text ?? '');
  return isTrigger(value) ? value : null;
}
