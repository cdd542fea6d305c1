import path from 'node:path';
import type { ErrorRecord } from '../../../core/lib/errors.ts';
import type { PlannedChange } from '../../../core/publish/plan.ts';
import type { FailedDelivery, RunDestination, RunRecord } from '../../../workers/queue/run-record.ts';
import { plural, shortMoment, tokenName, type Tone, triesText } from '../record-text.ts';
import { plainWords, sentence } from './error-view.ts';

/* Describes runs in words: the bundle, what started the run, and what went wrong. */

/**
 * Returns the name of a run's bundle. Returns null if the run has several, as runs of a source may, or if the
 * bundle has no name, for example because it was published to the destination's root.
 */
export function bundleOf({ bundle_path: path, destinations }: RunRecord): string | null {
  if (path !== undefined && path !== null && path !== '.') return path;
  const found = destinations.flatMap((one) => one.destination_path ?? []).filter((one) => one !== '.');
  const names = [...new Set(found)];
  return names.length === 1 ? (names[0] ?? null) : null;
}

/** Names a run by its bundle, or else by its time. It has the same name on all pages. */
export function runName(run: RunRecord): string {
  return bundleOf(run) ?? `Run of ${shortMoment(run.accepted_at)}`;
}

/** Puts a warning in the words of the console. Pages show paths in words, so it leaves out `target=.`. */
export function warningText(message: string): string {
  return sentence(plainWords(message.replace(/^(?:[^"]*: )?target=\.: /, '').replace(/\.?$/, '.')));
}

/** The names of changes to files, the same in the stages of a run, its plan and comparisons of releases. */
export const fateWords: Readonly<Record<string, string>> = {
  ...{ add: 'new', change: 'changed', remove: 'removed', refresh: 'same', keep: 'same' },
};

const whyWords: Readonly<Record<string, string>> = {
  ...{ not_recorded: '', content_differs: '', same: '', omitted: 'left the bundle' },
  ...{ source_differs: 'from another bundle', missing: 'was missing', not_a_file: 'was not a file' },
  ...{ interrupted: 'interrupted before', cleared: 'in the way', forced: 'forced' },
};

export interface ChangeLine {
  path: string;
  fate: string;
  /** The name of the change, such as `changed`. */
  word: string;
  /** The reason for the change; empty if the name says it. */
  why: string;
}

export function changeLine({ path, fate, why }: PlannedChange): ChangeLine {
  return { path, fate, word: fateWords[fate] ?? fate, why: whyWords[why] ?? why.replaceAll('_', ' ') };
}

/** Describes why a destination got its action, such as `1 changed file, 1 new file`. */
export function reasonText({
  reason,
  changes,
  changes_omitted: omitted,
}: Pick<RunDestination, 'reason' | 'changes' | 'changes_omitted'>): string | null {
  if (reason === null) return null;
  if (reason.code === 'destination_empty') return 'First publication here';
  if (reason.code !== 'outputs_differ' || omitted > 0) return sentence(plainWords(reason.message));
  const count = (fate: string): number => changes.filter((one) => one.fate === fate).length;
  const parts = [
    [count('change'), 'changed file'],
    [count('add'), 'new file'],
    [count('remove'), 'removed file'],
  ] as const;
  const known = parts.flatMap(([number, noun]) => (number === 0 ? [] : [plural(number, noun)]));
  return known.length === 0 ? 'The same files, from another bundle' : known.join(', ');
}

const deliveries: Readonly<Record<FailedDelivery['status'], { word: string; tone: Tone }>> = {
  retrying: { word: 'not delivered yet', tone: 'warning' },
  given_up: { word: 'not delivered', tone: 'failure' },
  delivered: { word: 'delivered', tone: 'success' },
};

/** Describes a notification that failed at least once, such as `not delivered after 1 try`. */
export function deliveryText({ status, tries }: Pick<FailedDelivery, 'status' | 'tries'>): {
  word: string;
  tone: Tone;
} {
  const { word, tone } = deliveries[status];
  return { word: `${word} after ${triesText(tries)}`, tone };
}

const events: Readonly<Record<string, string>> = {
  'bundle.published': 'Bundle published',
  'bundle.publish_failed': 'Publication failed',
  'bundle.unpublished': 'Bundle removed',
  'run.retry_scheduled': 'Run waits to try again',
  'release.activated': 'Release made current',
  'release.rolled_back': 'Release rolled back',
  'outputs.pruned': 'Old files removed',
  'audit.recorded': 'Audit record',
};

/** Returns the name of a type of event. */
export function eventName(type: string): string {
  return events[type] ?? type;
}

const systemErrors: Readonly<Record<string, string>> = {
  ENOENT: 'the directory does not exist',
  EACCES: 'the daemon lacks the permission',
  ENOSPC: 'the disk is full',
  ECONNREFUSED: 'nothing listens at the address',
  ENOTFOUND: 'the host name is unknown',
  ETIMEDOUT: 'there was no answer in time',
};

/** Describes why a notification failed, with the codes of the system in words. */
export function failureText(reason: string): string {
  const text = reason.replace(systemCode, (all, code: string) => {
    const words = systemErrors[code];
    return words === undefined ? all : `because ${words} (${code})`;
  });
  return sentence(text.replace(/\.?$/, '.'));
}

const systemCode = /\(([A-Z]+)\)/;

/** Returns the cause alone if it is known, such as `the directory does not exist`, or else the reason. */
export function causeText(reason: string): string {
  return systemErrors[systemCode.exec(reason)?.[1] ?? ''] ?? reason.replace(/\.$/, '');
}

/** Returns the next step if a notification failed for this reason. `place` is a file or a host. */
export function fixText(reason: string, place: string | null): string {
  const code = systemCode.exec(reason)?.[1];
  if (code === 'ENOSPC') return 'Free disk space';
  if (place?.startsWith('/') !== true) return 'Fix the cause';
  if (code === 'ENOENT') return `Create the directory ${path.dirname(place)}`;
  return code === 'EACCES' ? `Let the daemon write to ${place}` : 'Fix the cause';
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

/** Returns the token that started a run, or else the kind of event. */
export function starterText(run: RunRecord): string {
  const { token, how } = starterOf(run);
  return token ?? how;
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
  return run.triggered_by.kind === 'upload' ? null : forcePlan(run.pipeline_id, destinationId, hint);
}

/** The same for the plan of a pipeline that reads a source. */
export function forcePlan(pipelineId: string, destinationId: string, hint: string | null): string | null {
  if (hint?.includes('--force') !== true) return null;
  return `waybill run --config waybill.yml --pipeline ${pipelineId} --destination ${destinationId} --force --dry-run`;
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
