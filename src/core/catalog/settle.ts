import type { Digest } from '../digest.ts';
import type { Catalog, OutputRecord } from './catalog.ts';

/** What a path really holds; null if there is no file. */
export type Truth = { size: number; digest: Digest } | null;
/** By path. */
export type Observed = ReadonlyMap<string, Truth>;

/**
 * The paths whose bytes must be read before an interrupted attempt can be closed: all that it may have
 * touched, except those that the coming attempt writes or removes anyway (`handled`). Pure.
 */
export function pathsToSettle(catalog: Catalog, handled: ReadonlySet<string>): string[] {
  const { pending, outputs } = catalog;
  if (pending === null) return [];
  const recorded = new Set<string>(outputs.map(({ path }) => path));
  const touched = new Set<string>(pending.outputs.map(({ path }) => path));
  for (const path of pending.removes) if (recorded.has(path)) touched.add(path);
  return [...touched].filter((path) => !handled.has(path));
}

/**
 * The records made true by what was observed. A path that is gone loses its record. One that holds what the
 * interrupted attempt meant to write gets that attempt's record. Any other keeps its record, with the size
 * and digest that it really has: it stays managed, and its owner's next plan finds the difference. Pure.
 */
export function settle(catalog: Catalog, observed: Observed): OutputRecord[] {
  const intended = new Map<string, OutputRecord>(
    catalog.pending?.outputs.map((record) => [record.path, record]),
  );
  const recorded = new Map<string, OutputRecord>(catalog.outputs.map((record) => [record.path, record]));
  for (const [path, truth] of observed) {
    if (truth === null) {
      recorded.delete(path);
      continue;
    }
    const meant = intended.get(path);
    const known = recorded.get(path);
    const record = meant?.digest === truth.digest ? meant : (known ?? meant);
    if (record !== undefined) recorded.set(path, madeTrue(record, truth));
  }
  return [...recorded.values()];
}

/**
 * The record with what the file really is. Bytes that its generator did not make are not vouched for by the
 * inputs of that generator, from which a plan would else infer them.
 */
function madeTrue(record: OutputRecord, { size, digest }: { size: number; digest: Digest }): OutputRecord {
  if (digest === record.digest) return { ...record, size };
  return { ...record, size, digest, generated: { ...record.generated, generator: null } };
}
