import { formatSize } from '../../core/lib/settings/sizes-and-durations.ts';
import type { PlannedChange } from '../../core/publish/plan.ts';
import type { RunDestination, RunRecord, RunStatus } from '../../workers/queue/run-record.ts';

/*
 * Formats records for the console. Every state has a label and a symbol as well as a color, because color
 * alone is not accessible. Also formats times, ages, durations and sizes.
 */

export type Tone = 'success' | 'failure' | 'running' | 'waiting' | 'warning' | 'neutral';

export interface Mark {
  label: string;
  tone: Tone;
  symbol: string;
}

const statuses: Record<RunStatus, Mark> = {
  accepted: { label: 'accepted', tone: 'waiting', symbol: '…' },
  queued: { label: 'waiting', tone: 'waiting', symbol: '…' },
  running: { label: 'running', tone: 'running', symbol: '▸' },
  succeeded: { label: 'succeeded', tone: 'success', symbol: '✓' },
  failed: { label: 'failed', tone: 'failure', symbol: '✕' },
};

const actions: Record<RunDestination['action'], Mark> = {
  publish_new: { label: 'published', tone: 'success', symbol: '+' },
  upsert_additive: { label: 'updated', tone: 'success', symbol: '↑' },
  replace_catalog: { label: 'replaced', tone: 'success', symbol: '⇄' },
  force_replace: { label: 'forced', tone: 'warning', symbol: '!' },
  skip_same: { label: 'unchanged', tone: 'neutral', symbol: '=' },
  fail_unmanaged: { label: 'files in the way', tone: 'failure', symbol: '✕' },
  fail_conflict: { label: 'conflict', tone: 'failure', symbol: '✕' },
  error: { label: 'failed', tone: 'failure', symbol: '✕' },
};

export function statusMark({
  status,
  error,
  next_try_at,
}: Pick<RunRecord, 'status' | 'error' | 'next_try_at'>): Mark {
  if (next_try_at !== null) return { label: 'waits to try again', tone: 'warning', symbol: '↻' };
  if (error?.code === 'superseded') return { label: 'superseded', tone: 'warning', symbol: '◼' };
  if (error?.code === 'cancelled') return { label: 'cancelled', tone: 'warning', symbol: '◼' };
  return statuses[status];
}

/** Returns the state of a destination, given the error of the newest run there. */
export function destinationMark(error: RunDestination['error']): Mark {
  return error === null ? { label: 'published', tone: 'success', symbol: '✓' } : statuses.failed;
}

/** The state of a destination without runs. */
export const unpublishedMark: Mark = { label: 'nothing published', tone: 'neutral', symbol: '○' };

/** Returns the name of a status of runs, such as `waiting` for `queued`. */
export function statusLabel(status: RunStatus): string {
  return statuses[status].label;
}

/** The names of permissions for a pipeline. `publish` is to upload or to start runs, as it allows. */
export const permissionNames = {
  read: 'View',
  publish: 'Publish',
  rerun: 'Repeat and verify',
  cancel: 'Cancel and pause',
  releases: 'Switch releases',
} as const;

export function isAction(value: unknown): value is RunDestination['action'] {
  return typeof value === 'string' && Object.hasOwn(actions, value);
}

/** Shows a failed action as failed, regardless of the plan. */
export function actionMark({ action, error }: Pick<RunDestination, 'action' | 'error'>): Mark {
  const mark = actions[action];
  return error === null || mark.tone === 'failure' ? mark : { ...mark, tone: 'failure', symbol: '✕' };
}

/** Actions that publish over an earlier publication, and may find that it has the same files. */
const updates = new Set<RunDestination['action']>(['upsert_additive', 'replace_catalog']);

/**
 * Returns what a run did at a destination. An update that changed no file is shown as unchanged, although it
 * recorded another bundle or made a release.
 */
export function outcomeMark(one: RunDestination): Mark {
  return one.error === null && updates.has(one.action) && !changesFiles(one)
    ? actions.skip_same
    : actionMark(one);
}

/** Reports whether readers get other files than before. */
export function changesFiles({
  outputs_written: written,
  outputs_removed: removed,
  changes,
  changes_omitted: omitted,
}: RunDestination): boolean {
  return written + removed + omitted > 0 || changes.some(isVisible);
}

/** Reports whether readers see the change. The others only concern records. */
export function isVisible({ fate }: PlannedChange): boolean {
  return fate !== 'refresh' && fate !== 'keep';
}

/** Returns a token's id, or `admin` for the token of the administrator. */
export function tokenName(id: string): string {
  return id === 'server.admin_token_env' ? 'admin' : id;
}

/** A time as `20 Nov 2026, 02:04:34 UTC`, and in RFC 3339. */
export interface Moment {
  iso: string;
  text: string;
}

export function momentOf(iso: string): Moment {
  const at = new Date(iso);
  const date = at.toLocaleDateString('en-GB', {
    ...{ day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' },
  });
  return { iso, text: `${date}, ${at.toISOString().slice(11, 19)} UTC` };
}

/** Formats a time in UTC without the year and the seconds, such as `20 Nov, 02:04`. */
export function shortMoment(iso: string): string {
  const { text } = momentOf(iso);
  return `${text.slice(0, text.indexOf(',') - 5)}, ${iso.slice(11, 16)}`;
}

export function momentOrNull(iso: string | null): Moment | null {
  return iso === null ? null : momentOf(iso);
}

/** Formats a UTC date as the value of a date input. Returns an empty string for null. */
export const dayOf = (time: Date | null): string => time?.toISOString().slice(0, 10) ?? '';

const minute = 60_000;
const units: readonly [string, number][] = [
  ['d', 24 * 60 * minute],
  ['h', 60 * minute],
  ['min', minute],
];

/**
 * Formats an age such as `3 h ago`, or `just now` below a minute. Ages are rounded down, as a run is not a
 * day old before it is. Times ahead are rounded to the nearest unit: 11 h 59 min is `in 12 h`.
 */
export function ageText(iso: string, now: Date): string {
  const age = now.getTime() - Date.parse(iso);
  const ms = age > -minute ? age : Math.round(age / minute) * minute;
  const [name, size] = units.find(([, unit]) => Math.abs(ms) >= unit) ?? ['', 0];
  if (name === '') return ms >= 0 ? 'just now' : 'in a moment';
  return ms >= 0 ? `${Math.floor(ms / size)} ${name} ago` : `in ${Math.round(-ms / size)} ${name}`;
}

/** Formats a duration such as `120 ms`, `1.2 s`, `3 min 4 s` or `2 h`. Omits a second part that is zero. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  // From here on, one decimal would show as 60 seconds.
  if (ms < minute - 50) return `${Number((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return partsText([Math.floor(seconds / 60), 'min'], [seconds % 60, 's']);
  return partsText([Math.floor(seconds / 3600), 'h'], [Math.floor((seconds % 3600) / 60), 'min']);
}

function partsText(...parts: readonly [number, string][]): string {
  return parts.flatMap(([count, unit]) => (count > 0 ? [`${count} ${unit}`] : [])).join(' ');
}

export function sizeText(bytes: number): string {
  return formatSize(bytes);
}

/**
 * Returns how long the run took, or has taken so far, in milliseconds. Returns null if it has not started.
 */
export function durationOf(
  { started_at: start, finished_at: end }: Pick<RunRecord, 'started_at' | 'finished_at'>,
  now: Date,
): number | null {
  if (start === null) return null;
  return (end === null ? now.getTime() : Date.parse(end)) - Date.parse(start);
}

/** Formats a number of attempts: `1 try`, `2 tries`. */
export function triesText(tries: number): string {
  return tries === 1 ? '1 try' : `${tries} tries`;
}

/** Formats a count with its noun, adding an `s` for the plural: `1 run`, `2 runs`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-GB')} ${noun}${count === 1 ? '' : 's'}`;
}

/** Returns the names of destinations for a sentence, such as `web and site`, or their number. */
export function destinationsPhrase(ids: readonly string[]): string {
  return ids.length > 3 ? plural(ids.length, 'destination') : new Intl.ListFormat('en-GB').format(ids);
}

/** Returns the names of destinations, such as `web, site`, or their number if there are many. */
export function destinationsText(ids: readonly string[]): string {
  return ids.length > 3 ? plural(ids.length, 'destination') : ids.join(', ');
}
