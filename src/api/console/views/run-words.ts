import type { ErrorRecord } from '../../../core/lib/errors.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { plural, tokenName } from '../record-text.ts';

/* Words that identify a run: its bundle, and the token that started it. */

/**
 * Returns the bundle of a run. A run of a source may have several bundles. Returns null if none has a name,
 * as at the root of a destination.
 */
export function bundleOf({ bundle_path: path, destinations }: RunRecord): string | null {
  if (path !== undefined && path !== null && path !== '.') return path;
  const found = destinations.flatMap((one) => one.destination_path ?? []).filter((one) => one !== '.');
  const names = [...new Set(found)];
  return names.length > 1 ? plural(names.length, 'bundle') : (names[0] ?? null);
}

const kinds = { upload: 'upload', request: 'manual start', schedule: 'schedule', watch: 'source change' };

export interface Starter {
  /** The token's id; null for a schedule, a watched source, and older records. */
  token: string | null;
  how: string;
}

/** Returns what started a run: a token, a schedule or a change of the source. */
export function starterOf({ triggered_by: by, rerun_of: former }: RunRecord): Starter {
  const id = by.token_id ?? null;
  return { token: id === null ? null : tokenName(id), how: former === null ? kinds[by.kind] : 'rerun' };
}

/**
 * Reports whether repeating a failed run unchanged can succeed: one of the causes is temporary, or the run
 * was cancelled.
 */
export function rerunHelps(run: RunRecord): boolean {
  if (run.status !== 'failed') return false;
  return errorsOf(run).some(({ code, retryable }) => retryable || code === 'cancelled');
}

/** Returns the errors of the run and its destinations. */
export function errorsOf({ error, destinations }: RunRecord): ErrorRecord[] {
  return [error, ...destinations.map((one) => one.error)].filter((one) => one !== null);
}

/** Formats counts such as `11 of the last 22 runs failed`. */
export function failedText(failed: number, total: number): string {
  if (total === 0) return 'No run has finished yet';
  if (total === 1) return failed === 1 ? 'The last run failed' : 'The last run succeeded';
  return failed === 0
    ? `None of the last ${total} runs failed`
    : `${failed} of the last ${total} runs failed`;
}
