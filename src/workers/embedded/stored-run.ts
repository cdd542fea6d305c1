import path from 'node:path';
import type { StoredRun } from '../memory/journal.ts';
import { type LegacyRunRecord, upgradeRecord } from '../queue/run-record.ts';

/*
 * The format of runs in the file. The path of the staged bundle is relative to the staging directory, which
 * may get moved while the daemon is stopped.
 */

export function storedRunText(run: StoredRun, staging: string): string {
  const { job, bundle, rerunAs, record, key, position, begun, begunAt } = run;
  const staged = job.staged === null ? null : path.relative(staging, job.staged);
  const stored = { job: { ...job, staged }, bundle, rerunAs, record, key, position, begun, begunAt };
  return JSON.stringify({ ...stored, told: run.reported });
}

type AddedRunField = 'bundle' | 'rerunAs';
/** A run written by an earlier version. Newer fields may be missing. */
type LegacyStoredRun = Omit<StoredRun, AddedRunField | 'record' | 'reported'> &
  Partial<Pick<StoredRun, AddedRunField>> & { record: LegacyRunRecord; told: string[] };

/**
 * Parses a run. The path of its staged bundle remains relative. Returns undefined if the text is not a run.
 */
export function parseStoredRun(text: string): StoredRun | undefined {
  // The checksum has already confirmed that waybill wrote exactly this text.
  if (!text.startsWith('{"job":')) return undefined;
  const { told: reported, ...run } = JSON.parse(text) as LegacyStoredRun;
  const bundle = run.job.staged === null ? 'none' : 'staged';
  return { rerunAs: null, bundle, ...run, reported, record: upgradeRecord(run.record) };
}

export function withStagedIn(run: StoredRun, staging: string): StoredRun {
  const { job } = run;
  return job.staged === null ? run : { ...run, job: { ...job, staged: path.resolve(staging, job.staged) } };
}
