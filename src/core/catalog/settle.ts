import type { Digest } from '../lib/digest.ts';
import type { Catalog, OutputRecord } from './catalog.ts';

/*
 * Corrects the records after an interrupted attempt. The next attempt reads the files that may have been
 * touched, and updates their records to match.
 */

/** The size and digest of a file as it is in storage; null if it does not exist. */
export type ActualContent = { size: number; digest: Digest } | null;
/** The size and digest of each file as it is in storage, by path. */
export type ObservedContents = ReadonlyMap<string, ActualContent>;

/**
 * Returns the paths to read before we are done with an interrupted attempt. These are all paths that it may
 * have touched, except those in `handled`, which the current attempt writes or removes anyway.
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
 * Returns the records, corrected to match what was found. The record of a missing file is dropped. If the
 * interrupted attempt completed a file, the file gets the new record. Any other file keeps its old record,
 * with the size and digest updated. That way, it stays managed, and its owner's next plan notices the
 * difference.
 */
export function settle(catalog: Catalog, observed: ObservedContents): OutputRecord[] {
  const intended = new Map<string, OutputRecord>(
    catalog.pending?.outputs.map((record) => [record.path, record]),
  );
  const recorded = new Map<string, OutputRecord>(catalog.outputs.map((record) => [record.path, record]));
  for (const [path, actual] of observed) {
    if (actual === null) {
      recorded.delete(path);
      continue;
    }
    const announced = intended.get(path);
    const known = recorded.get(path);
    const record = announced?.digest === actual.digest ? announced : (known ?? announced);
    if (record !== undefined) recorded.set(path, withContent(record, actual));
  }
  return [...recorded.values()];
}

/**
 * Updates the size and digest in a record. If the digest is different, also drops the generator. Otherwise,
 * the next plan would look at the generator's inputs and assume that the file still matches them.
 */
function withContent(record: OutputRecord, { size, digest }: { size: number; digest: Digest }): OutputRecord {
  if (digest === record.digest) return { ...record, size };
  return { ...record, size, digest, generated: { ...record.generated, generator: null } };
}
