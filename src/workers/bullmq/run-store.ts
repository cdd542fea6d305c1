import { isRecord } from '../../core/lib/json-document.ts';
import type { RetentionLimits } from '../queue/bundle-retention.ts';
import type { PublishJob } from '../queue/job.ts';
import type { Pause } from '../queue/job-queue.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { AdmissionStore } from './admission-store.ts';
import { type JobSeal, jobSeal, parseUnverifiedJob } from './job-seal.ts';
import type { RedisLink } from './link.ts';
import { ReplicaConfirmation, unconfirmedForMs } from './replica-confirmation.ts';
import { RunClaims } from './run-claims.ts';
import { requiredRecord, RunReads } from './run-reads.ts';
import { pairsOf } from './scripts.ts';
import { jsonOf } from './shapes.ts';

type Cancelled =
  | { outcome: 'forgotten'; record: RunRecord; job: PublishJob }
  | { outcome: 'stopping' | 'finished'; record: RunRecord };
interface Due {
  outcome: 'due' | 'unchanged' | 'finished';
  record: RunRecord;
}

/**
 * The state that all hosts share. Its parts are for their callers: `admission` accepts runs, `claims` is for
 * workers, and `reads` for readers. The methods pause pipelines, cancel waiting runs, hand runs over to
 * BullMQ, and serve housekeeping. Every call is a single atomic step in Redis, and throws `queue_unavailable`
 * while Redis is unreachable.
 */
export class RunStore {
  readonly reads: RunReads;
  readonly admission: AdmissionStore;
  readonly claims: RunClaims;
  readonly confirmation: ReplicaConfirmation;
  readonly #link: RedisLink;

  /** @param slotLifeMs See `AdmissionStoreOptions`. */
  constructor(link: RedisLink, slotLifeMs: number, seal: JobSeal = jobSeal()) {
    this.#link = link;
    this.confirmation = new ReplicaConfirmation(link);
    const unconfirmedMs = this.confirmation.isNeeded ? unconfirmedForMs : 0;
    this.admission = new AdmissionStore(link, { seal, slotLifeMs, unconfirmedMs });
    this.reads = new RunReads(link);
    this.claims = new RunClaims(link, seal);
  }

  /** Implements `JobQueue.pause`. `at` is the current time. */
  async pause(pipeline: string, reason: string | null, at: Date): Promise<Pause> {
    const args = { pipeline, since: at.toISOString(), reason: JSON.stringify(reason) };
    return pauseOf((await this.#link.run('pipelines/pause', args)) as string);
  }

  /** Resumes the pipeline. Returns false if it was not paused. */
  async resume(pipelineId: string): Promise<boolean> {
    const { redis } = this.#link;
    return (await this.#link.ask(() => redis.hdel(this.#link.key('paused'), pipelineId))) === 1;
  }

  /** See `JobQueue.pauses`. */
  async pauses(): Promise<ReadonlyMap<string, Pause>> {
    const found = await this.#link.ask(() => this.#link.redis.hgetall(this.#link.key('paused')));
    return new Map(Object.entries(found).map(([pipelineId, text]) => [pipelineId, pauseOf(text)]));
  }

  /**
   * Reports whether a worker may start one of the pipeline's runs. It may not if the pipeline is paused, if
   * another worker is already running one, or if a blocking run is waiting for its next attempt.
   */
  async mayTake(pipeline: string): Promise<boolean> {
    return (await this.#link.run('pipelines/may-take', { pipeline })) === 1;
  }

  /**
   * Cancels a run. If it is waiting, it ends with this record right away. If it is running, its worker learns
   * that it should stop from a message on the channel `cancel` and from `RunClaims.findCancelled`. Resolves
   * with null if the run is unknown.
   */
  async cancel(cancelled: RunRecord, retentionMs: number): Promise<Cancelled | null> {
    const args = { runId: cancelled.run_id, record: JSON.stringify(cancelled), retentionMs };
    const answer = await this.#link.run('runs/cancel', args);
    const [outcome, text = '', job = ''] = answer as [Cancelled['outcome']?, ...string[]];
    if (outcome === undefined) return null;
    const record = requiredRecord(text);
    if (outcome !== 'forgotten') return { outcome, record };
    const { run_id: runId, pipeline_id: pipelineId } = record;
    return { outcome, record, job: parseUnverifiedJob(job) ?? { runId, pipelineId, staged: null } };
  }

  /**
   * Saves this record and makes the next attempt due immediately. Returns `unchanged` if the run is not
   * waiting for an attempt, or null if it is unknown.
   */
  async retryNow(due: RunRecord): Promise<Due | null> {
    const args = { runId: due.run_id, record: JSON.stringify(due) };
    const answer = await this.#link.run('runs/retry-now', args);
    const [outcome, text = ''] = answer as [Due['outcome']?, string?];
    return outcome === undefined ? null : { outcome, record: requiredRecord(text) };
  }

  /**
   * Returns the accepted runs of a pipeline that may not be in BullMQ's queue yet, in the order in which they
   * were accepted. Ends before the first run that still has to be confirmed, unless it is `confirmed`.
   */
  outbox(pipeline: string, confirmed = ''): Promise<string[]> {
    return this.#link.list('runs/outbox', { pipeline, confirmed });
  }

  /** Returns the pipelines that have runs in their outbox. */
  outboxes(): Promise<string[]> {
    return this.#link.ask(() => this.#link.redis.smembers(this.#link.key('outboxes')));
  }

  /** Removes runs from their pipeline's outbox. */
  async handedOver(pipeline: string, runIds: readonly string[]): Promise<void> {
    await this.#link.run('runs/handed-over', { pipeline }, runIds);
  }

  /** Puts the unfinished runs of these pipelines back into their outboxes. */
  async reopen(pipelineIds: readonly string[]): Promise<void> {
    await this.#link.run('runs/reopen', {}, pipelineIds);
  }

  /** Returns which of the given pipelines may have a run to start. */
  waiting(pipelineIds: readonly string[]): Promise<string[]> {
    return this.#link.list('runs/waiting', {}, pipelineIds);
  }

  /**
   * Finds bundles that are past the limits and detaches them, so that no run can use them anymore. Returns
   * the jobs of up to `limit` runs, whose bundles the caller then has to delete.
   */
  async overkept({ keepMs, maxBundles, maxBytes }: RetentionLimits, limit: number): Promise<PublishJob[]> {
    const jobs = await this.#link.list('runs/overkept', { keepMs, maxBundles, maxBytes, limit });
    return jobs.flatMap((job) => parseUnverifiedJob(job) ?? []);
  }

  /** Returns up to `limit` finished runs whose retention period is over. */
  async expired(limit: number): Promise<{ runId: string; job: PublishJob | null }[]> {
    const found = pairsOf(await this.#link.list('runs/expired', { limit }));
    return found.map(([runId, job]) => ({ runId, job: parseUnverifiedJob(job) }));
  }

  async forget(runId: string): Promise<void> {
    await this.#link.run('runs/forget', { runId });
  }

  /** Returns up to `limit` archives that were staged by an API that died before the upload was accepted. */
  unwanted(limit: number): Promise<string[]> {
    return this.#link.list('admission/unwanted', { limit });
  }

  async forgetStaged(staged: string): Promise<void> {
    await this.#link.ask(() => this.#link.redis.zrem(this.#link.key('unwanted'), staged));
  }
}

const unreadablePause: Pause = {
  since: new Date(0).toISOString(),
  reason: 'another program has overwritten this pause in Redis; resume the pipeline to remove it',
};

/** Parses the details of a pause. If another program overwrote them, the pipeline still counts as paused. */
function pauseOf(text: string): Pause {
  const value = jsonOf(text);
  if (!isRecord(value)) return unreadablePause;
  const { since, reason } = value;
  const isWhole = typeof since === 'string' && (typeof reason === 'string' || reason === null);
  return isWhole ? { since, reason } : unreadablePause;
}
