import type { Clock } from '../../core/lib/clock.ts';
import type { PublishJob } from '../queue/job.ts';
import { isRerunnable } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { hasSamePlace, type RetriesOf, supersededRun } from '../queue/run-retry.ts';
import type { RunStore } from './run-store.ts';

/** The maximum number of later runs to look at per pipeline. */
const maxNewer = 1_000;

/**
 * Returns the id of the newest later run that publishes to the same place, or undefined if there isn't one.
 */
export async function newerOf(
  store: Pick<RunStore, 'newer'>,
  job: PublishJob,
  retries: RetriesOf,
): Promise<string | undefined> {
  const settings = retries(job.pipelineId);
  const newer = await store.newer(job.runId, maxNewer);
  return newer.find((other) => hasSamePlace(job, other, settings))?.runId;
}

export interface SupersedeOptions {
  store: RunStore;
  clock: Clock;
  retentionMs: number;
  retries: RetriesOf;
  onOutcome: (job: PublishJob, next: RunRecord) => void;
  /** Called for every run that this ends. */
  onEnd: (job: PublishJob) => Promise<void>;
}

/**
 * Ends the pipeline's runs that are waiting for their next attempt but have been replaced by newer runs. This
 * happens after each accepted upload. If the host dies first, such a run ends when its next attempt is due.
 */
export async function supersede(pipelineId: string, options: SupersedeOptions): Promise<void> {
  const { store, clock, retries, retentionMs, onOutcome, onEnd } = options;
  for (const { job, record } of await store.retrying(pipelineId)) {
    const by = await newerOf(store, job, retries);
    if (by === undefined) continue;
    const ended = supersededRun(record, by, clock.now());
    const next = { ...ended, rerunnable: isRerunnable(job, ended) };
    if (!(await store.supersede(job, next, retentionMs))) continue;
    onOutcome(job, next);
    await onEnd(job);
  }
}
