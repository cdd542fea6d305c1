import {
  type Catalog,
  type CatalogState,
  type GeneratedMetadata,
  type OutputRecord,
  announcedPaths,
  recordedPaths,
} from '../../catalog/catalog.ts';
import { sameOwner, type SourceIdentity } from '../../storage/identity.ts';
import type { StorageFacts } from '../../storage/storage.ts';
import type { DecisionInput, PlannedOutput } from '../plan.ts';

/*
 * Compares planned outputs with catalog records.
 */

/** Whether the record equals the planned output in every field that `skip_same` requires. Pure. */
export function isRecordedAs(record: OutputRecord | undefined, output: PlannedOutput): boolean {
  return (
    record !== undefined &&
    sameOwner(record.owner, output.owner) &&
    sameSource(record.source, output.source) &&
    record.kind === output.kind &&
    record.digest === output.digest &&
    record.size === output.size &&
    sameHeaders(record.generated, output.generated) &&
    sameGenerator(record.generated, output.generated) &&
    record.url === output.url
  );
}

/**
 * Whether a valid state alone leads to `skip_same`, so that nothing else needs to be observed. Planned paths
 * cannot block each other then, because a state whose records block each other is invalid. Pure.
 */
export function isSettledByState(
  { owner, workflow, planned }: Pick<DecisionInput, 'owner' | 'workflow' | 'planned'>,
  state: CatalogState,
): boolean {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const { outputs } = state.catalog;
  const recorded = byPath(outputs);
  if (!planned.every((output) => isRecordedAs(recorded.get(output.path), output))) return false;
  if (workflow === 'additive') return true;
  const wanted = new Set<string>(planned.map(({ path }) => path));
  return outputs.every((record) => wanted.has(record.path) || !sameOwner(record.owner, owner));
}

/**
 * The planned outputs that can be kept if the file still exists: they are recorded with the same content, and
 * with the same headers if the storage keeps them. Paths announced by an unfinished attempt are excluded.
 * Pure.
 */
export function vouchedOutputs(
  planned: readonly PlannedOutput[],
  { outputs, pending }: Catalog,
  { keepsHeaders }: Pick<StorageFacts, 'keepsHeaders'>,
): PlannedOutput[] {
  const recorded = byPath(outputs);
  const announced = announcedPaths(pending);
  return planned.filter((output) => {
    const record = recorded.get(output.path);
    return (
      record?.digest === output.digest &&
      record.size === output.size &&
      sameOwner(record.owner, output.owner) &&
      (!keepsHeaders || sameHeaders(record.generated, output.generated)) &&
      !announced.has(output.path)
    );
  });
}

const indexes = new WeakMap<readonly OutputRecord[], Map<string, OutputRecord>>();

/**
 * The records by path. Builds one index per list and caches it: there may be half a million records. Pure.
 */
export function byPath(records: readonly OutputRecord[]): ReadonlyMap<string, OutputRecord> {
  const known = indexes.get(records);
  if (known !== undefined) return known;
  const index = new Map<string, OutputRecord>();
  for (const record of records) index.set(record.path, record);
  indexes.set(records, index);
  return index;
}

export type PathSet = Pick<ReadonlySet<string>, 'has' | 'size'>;

/** Like `recordedPaths`, but reuses the index of a large catalog if possible. Pure. */
export function recordedIn(state: CatalogState): PathSet {
  const isWhole = state.kind === 'valid' && state.catalog.pending === null;
  return isWhole ? byPath(state.catalog.outputs) : recordedPaths(state);
}

export function sameSource(a: SourceIdentity, b: SourceIdentity): boolean {
  return a.backend === b.backend && a.id === b.id && a.path === b.path;
}

/** Compares the headers that an object store keeps with the content. Pure. */
export function sameHeaders(a: GeneratedMetadata, b: GeneratedMetadata): boolean {
  return a.contentType === b.contentType && a.cacheControl === b.cacheControl;
}

/** Whether both were generated in the same way, or neither was. Pure. */
export function sameGenerator(
  { generator: a }: GeneratedMetadata,
  { generator: b }: GeneratedMetadata,
): boolean {
  return a?.name === b?.name && a?.version === b?.version && a?.inputs === b?.inputs;
}
