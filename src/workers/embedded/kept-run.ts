import path from 'node:path';
import type { KeptRun } from '../memory/journal.ts';

/*
 * A run as it stands in the file: staged bundles are named relative to the staging directory, which may be
 * moved while the daemon is down.
 */

export function keptRunText(
  { job, record, key, position, begun, begunAt, told }: KeptRun,
  staging: string,
): string {
  const staged = job.staged === null ? null : path.relative(staging, job.staged);
  return JSON.stringify({ job: { ...job, staged }, record, key, position, begun, begunAt, told });
}

/** The run of such a text, with its staged bundle named as in there; undefined if the text is of none. */
export function parseKeptRun(text: string): KeptRun | undefined {
  // Its checksum says that this program wrote it, in this very form.
  return text.startsWith('{"job":') ? (JSON.parse(text) as KeptRun) : undefined;
}

export function withStagedIn(run: KeptRun, staging: string): KeptRun {
  const { job } = run;
  return job.staged === null ? run : { ...run, job: { ...job, staged: path.resolve(staging, job.staged) } };
}
