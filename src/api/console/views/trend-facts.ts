import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { paths } from '../paths.ts';
import { durationText, momentOf, plural, shortMoment, sizeText } from '../record-text.ts';

/* Sums up the runs of a pipeline in a few numbers, and what each destination holds according to them. */

interface TrendFact {
  name: string;
  value: string;
  /** A note on the value; null if it needs none. */
  about: string | null;
  isFailure: boolean;
  /** The run that the value is about; null if it is about several. */
  href: string | null;
}

export const durationMs = (run: RunRecord): number =>
  Date.parse(run.finished_at ?? '') - Date.parse(run.started_at ?? '');
export const waitedMs = (run: RunRecord): number =>
  Date.parse(run.started_at ?? '') - Date.parse(run.accepted_at);

/** Returns failures, durations and the longest wait. Empty without runs. `runs` must be newest first. */
export function trendFacts(runs: readonly RunRecord[]): TrendFact[] {
  const ended = runs.filter(({ finished_at: at }) => at !== null);
  const begun = ended.filter(({ started_at: at }) => at !== null);
  const [first] = begun;
  if (first === undefined) return [];
  const longest = begun.reduce((a, b) => (durationMs(b) > durationMs(a) ? b : a), first);
  const waited = begun.reduce((a, b) => (waitedMs(b) > waitedMs(a) ? b : a), first);
  const durations = begun.map(durationMs);
  return [
    failuresOf(ended),
    {
      ...{ name: 'Median duration', value: durationText(medianOf(durations)) },
      ...{ about: null, isFailure: false, href: null },
    },
    ...(begun.length < minForPercentile
      ? []
      : [
          {
            ...{ name: '95th percentile', value: durationText(percentileOf(durations, 0.95)) },
            ...{ about: null, isFailure: false, href: null },
          },
        ]),
    {
      ...{ name: 'Longest run', value: durationText(durationMs(longest)), isFailure: false },
      ...{ about: shortMoment(longest.accepted_at), href: paths.run(longest.run_id) },
    },
    {
      ...{ name: 'Longest wait', value: durationText(waitedMs(waited)), isFailure: false },
      ...{ about: shortMoment(waited.accepted_at), href: paths.run(waited.run_id) },
    },
  ];
}

function failuresOf(ended: readonly RunRecord[]): TrendFact {
  const failed = ended.filter(({ status }) => status === 'failed');
  const [newest] = failed;
  return {
    ...{ name: 'Failed runs', value: `${failed.length} of ${ended.length}`, isFailure: failed.length > 0 },
    about: newest === undefined ? 'no run failed' : whenFailed(ended, newest),
    href: newest === undefined ? null : paths.run(newest.run_id),
  };
}

/** Says whether the newest runs all failed, or else when the last failure was. */
function whenFailed(ended: readonly RunRecord[], newest: RunRecord): string {
  const success = ended.findIndex(({ status }) => status !== 'failed');
  const inARow = success === -1 ? ended.length : success;
  return inARow > 1 ? `the last ${inARow} in a row` : `newest ${shortMoment(newest.accepted_at)}`;
}

/** Returns the dates of the first and the last run, such as `20 Nov 2026 to 28 Nov 2026`, in UTC. */
export function periodOf(runs: readonly Pick<RunRecord, 'accepted_at'>[]): string {
  const days = [runs.at(-1), runs[0]].flatMap((run) =>
    run === undefined ? [] : momentOf(run.accepted_at).text.replace(/,.*/, ''),
  );
  return [...new Set(days)].join(' to ');
}

/** Returns the median: the mean of the two in the middle if there are two, and 0 without values. */
export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low = 0, high = 0] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return (low + high) / 2;
}

/** Returns a percentile by the nearest-rank method. `part` is between 0 and 1. Returns 0 without values. */
export function percentileOf(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
}

/** With fewer runs, the 95th percentile is the longest one. */
const minForPercentile = 20;

export type Destination = RunRecord['destinations'][number];

export const bytesOf = (one: Destination): number => one.bytes_written + one.bytes_linked + one.bytes_kept;
export const outputsOf = (one: Destination): number =>
  one.outputs_written + one.outputs_linked + one.outputs_kept;

/** The newest bundle of each path of a destination. */
export interface Holding {
  id: string;
  /** Such as `2 bundles`. */
  text: string;
  bundles: { path: string; text: string; width: number }[];
}

/** Returns the newest bundles of each destination, from runs that are newest first. */
export function holdingsOf(runs: readonly RunRecord[]): Holding[] {
  const found = new Map<string, Map<string, Destination>>();
  const forAll = runs.filter(({ channel }) => channel === null);
  for (const one of forAll.flatMap(({ destinations }) => destinations)) {
    if (one.error !== null || one.destination_path === null || bytesOf(one) === 0) continue;
    const at = found.get(one.destination_id) ?? new Map<string, Destination>();
    if (!at.has(one.destination_path)) at.set(one.destination_path, one);
    found.set(one.destination_id, at);
  }
  const all = [...found.values()].flatMap((at) => [...at.values()]);
  const most = Math.max(1, ...all.map(bytesOf));
  return [...found].map(([id, at]) => ({
    id,
    text: plural(at.size, 'bundle'),
    bundles: [...at]
      .sort(([, a], [, b]) => bytesOf(b) - bytesOf(a))
      .slice(0, maxBundles)
      .map(([path, one]) => ({
        path: path === '.' ? 'at the root' : path,
        text: `${plural(outputsOf(one), 'file')}, ${sizeText(bytesOf(one))}`,
        width: Math.max(1, Math.round((1000 * bytesOf(one)) / most) / 10),
      })),
  }));
}

const maxBundles = 6;
