import path from 'node:path';
import type { KeptRun } from '../memory/journal.ts';
import { type EarlierRecord, withLaterFields } from '../queue/run-record.ts';

/*
 * A run as it stands in the file: staged bundles are named relative to the staging directory, which may be
 * moved while the daemon is down.
 */

export function keptRunText(run: KeptRun, staging: string): string {
  const { job, bundle, rerunAs, record, key, position, begun, begunAt, told } = run;
  const staged = job.staged === null ? null : path.relative(staging, job.staged);
  const kept = { job: { ...job, staged }, bundle, rerunAs, record, key, position, begun, begunAt, told };
  return JSON.stringify(kept);
}

type Later = 'bundle' | 'rerunAs';
/** As earlier versions wrote it. */
type EarlierRun = Omit<KeptRun, Later | 'record'> & Partial<Pick<KeptRun, Later>> & { record: EarlierRecord };

/** The run of such a text, with its staged bundle named as in there; undefined if the text is of none. */
export function parseKeptRun(text: string): KeptRun | undefined {
  // Its checksum says that this program wrote it, in this very form.
  if (!text.startsWith('{"job":')) return undefined;
  const kept = JSON.parse(text) as EarlierRun;
  const bundle = kept.job.staged === null ? 'none' : 'staged';
  return { rerunAs: null, bundle, ...kept, record: withLaterFields(kept.record) };
}

export function withStagedIn(run: KeptRun, staging: string): KeptRun {
  const { job } = run;
  return job.staged === null ? run : { ...run, job: { ...job, staged: path.resolve(staging, job.staged) } };
}
