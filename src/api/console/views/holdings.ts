import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { plural, sizeText } from '../record-text.ts';

/* What each destination holds, according to the records of runs. */

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
