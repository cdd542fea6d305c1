import type { ErrorRecord } from '../../../core/lib/errors.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { plural, tokenName } from '../record-text.ts';

/* Describes runs in words: the bundle, what started the run, and what went wrong. */

/**
 * Returns the name of a run's bundle, or a count such as `2 bundles`, because runs of a source may have
 * several. Returns null if the bundle has no name, for example because it was published to the
 * destination's root.
 */
export function bundleOf({ bundle_path: path, destinations }: RunRecord): string | null {
  if (path !== undefined && path !== null && path !== '.') return path;
  const found = destinations.flatMap((one) => one.destination_path ?? []).filter((one) => one !== '.');
  const names = [...new Set(found)];
  return names.length > 1 ? plural(names.length, 'bundle') : (names[0] ?? null);
}

const kinds = { upload: 'upload', request: 'manual start', schedule: 'schedule', watch: 'source change' };

export interface Starter {
  /** The id of the token; null for runs started by a schedule or a watched source, and in old records. */
  token: string | null;
  how: string;
}

/** Returns what started a run, such as a token, a schedule or a change in the source. */
export function starterOf({ triggered_by: by, rerun_of: former }: RunRecord): Starter {
  const id = by.token_id ?? null;
  return { token: id === null ? null : tokenName(id), how: former === null ? kinds[by.kind] : 'rerun' };
}

/**
 * Reports whether repeating a failed run without changes could succeed, either because one of the errors is
 * temporary or because the run was cancelled.
 */
export function rerunHelps(run: RunRecord): boolean {
  if (run.status !== 'failed') return false;
  return errorsOf(run).some(({ code, retryable }) => retryable || code === 'cancelled');
}

/**
 * Returns the command that shows what `--force` would delete, for errors that it can fix. Only runs of a
 * source can be repeated on the command line.
 */
export function forceCommand(run: RunRecord, destinationId: string, hint: string | null): string | null {
  if (hint?.includes('--force') !== true || run.triggered_by.kind === 'upload') return null;
  return `waybill run --config waybill.yml --pipeline ${run.pipeline_id} --destination ${destinationId} --force --dry-run`;
}

/** Starts a message of an error with a capital letter. */
export function sentence(message: string): string {
  return message.charAt(0).toUpperCase() + message.slice(1);
}

export function errorsOf({ error, destinations }: RunRecord): ErrorRecord[] {
  return [error, ...destinations.map((one) => one.error)].filter((one) => one !== null);
}

/** Returns a summary such as `11 of the last 22 runs failed`. */
export function failedText(failed: number, total: number): string {
  if (total === 0) return 'No run has finished yet';
  if (total === 1) return failed === 1 ? 'The last run failed' : 'The last run succeeded';
  return failed === 0
    ? `None of the last ${total} runs failed`
    : `${failed} of the last ${total} runs failed`;
}
