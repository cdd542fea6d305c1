import { hasCode } from '../../core/lib/errors.ts';
import { recordOf, type RunRecord } from '../queue/run-record.ts';
import { stagedBytes } from '../queue/kept-bundles.ts';
import { mostEnds } from '../queue/refusals.ts';
import type { JobSeal } from './job-seal.ts';
import type { RunScript } from './scripts.ts';
import type { PublishJob } from '../queue/job.ts';

/** Runs that wait for their next try. Each call is one step in Redis. */
export interface RetryStore {
  /**
   * Lets the run of `owner` wait, with this record. With `blocks` later runs of its pipeline wait behind it.
   * `lost`: it has another owner; `cancelled`: it was cancelled meanwhile, and is to be ended.
   */
  retry(
    owner: string,
    record: RunRecord,
    wait: { pauseMs: number; blocks: boolean },
  ): Promise<'ok' | 'lost' | 'cancelled'>;
  /** Makes the next try due, with this record; `unchanged`: the run waits for none. Null if it is unknown. */
  retryNow(
    record: RunRecord,
  ): Promise<{ outcome: 'due' | 'unchanged' | 'finished'; record: RunRecord } | null>;
  /** Those of one pipeline. */
  retrying(pipelineId: string): Promise<{ record: RunRecord; job: PublishJob }[]>;
  /** The jobs of at most `most` runs of the same pipeline that were accepted later, the newest first. */
  newer(runId: string, most: number): Promise<PublishJob[]>;
  /** Ends a run with this record and keeps its bundle; false if it no longer waits for its next try. */
  supersede(job: PublishJob, record: RunRecord, retentionMs: number): Promise<boolean>;
}

export function retryStore(run: RunScript, seal: JobSeal): RetryStore {
  /** None if the job is not authentic: it replaces no other, and fails when it is taken. */
  const authentic = (text: string): PublishJob[] => {
    try {
      return [seal.open(text)];
    } catch (error) {
      if (hasCode(error, 'job_rejected')) return [];
      throw error;
    }
  };
  return {
    retry: async (owner, record, { pauseMs, blocks }) => {
      const text = JSON.stringify(record);
      const args = { runId: record.run_id, owner, record: text, pauseMs, mostEnds, blocks: Number(blocks) };
      const answer = await run('retry', args);
      return answer === 1 ? 'ok' : answer === 2 ? 'cancelled' : 'lost';
    },
    retryNow: async (due) => {
      const args = { runId: due.run_id, record: JSON.stringify(due) };
      const [outcome, text = ''] = (await run('retryNow', args)) as [
        ('due' | 'unchanged' | 'finished')?,
        string?,
      ];
      return outcome === undefined ? null : { outcome, record: recordOf(text) };
    },
    retrying: async (pipeline) => {
      const found = (await run('retrying', { pipeline })) as string[];
      return found.flatMap((text, index) =>
        index % 2 === 0
          ? authentic(found[index + 1] ?? '').map((job) => ({ record: recordOf(text), job }))
          : [],
      );
    },
    newer: async (runId, most) => ((await run('newer', { runId, most })) as string[]).flatMap(authentic),
    supersede: async (job, record, retentionMs) => {
      const bytes = job.staged === null ? '' : stagedBytes(job);
      const args = { runId: job.runId, record: JSON.stringify(record), retentionMs, bytes };
      return (await run('supersede', args)) === 1;
    },
  };
}
