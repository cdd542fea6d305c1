import type { Digest } from '../lib/digest.ts';
import type { Catalog, OutputRecord } from './catalog.ts';

/*
 * Settles the records after an interrupted attempt. The next attempt reads the files that the interrupted one
 * may have touched, and corrects the records to match them.
 */

/** The actual content of a path, or null if the file does not exist. */
export type ActualContent = { size: number; digest: Digest } | null;
/** The actual content of files, by path. */
export type Observed = ReadonlyMap<string, ActualContent>;

/**
 * Returns the paths to read before an interrupted attempt can be closed. These are all paths that it may have
 * touched, except the `handled` ones, which the current attempt writes or removes.
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
 * Returns the records, corrected to match the observed content. A missing file loses its record. A file that
 * the interrupted attempt finished gets that attempt's record. Any other file keeps its record with the
 * observed size and digest: it stays managed, and its owner's next plan finds the difference.
 */
export function settle(catalog: Catalog, observed: Observed): OutputRecord[] {
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
    if (record !== undefined) recorded.set(path, corrected(record, actual));
  }
  return [...recorded.values()];
}

/**
 * Returns the record with the file's size and digest. If the digest differs, the generator is dropped,
 * because a plan would otherwise infer the content from the generator's inputs.
 */
function corrected(record: OutputRecord, { size, digest }: { size: number; digest: Digest }): OutputRecord {
  if (digest === record.digest) return { ...record, size };
  return { ...record, size, digest, generated: { ...record.generated, generator: null } };
}
