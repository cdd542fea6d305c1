import {
  type Catalog,
  type CatalogState,
  type GeneratedMetadata,
  intentPaths,
  type LegacyRecord,
  type OutputRecord,
  type Pending,
  recordedPaths,
} from '../../catalog/catalog.ts';
import { compareCodeUnits } from '../../lib/paths.ts';
import { type Owner, sameOwner, type SourceIdentity } from '../../storage/identity.ts';
import { type Key, listedKey } from '../../storage/key.ts';
import type { StorageFacts } from '../../storage/storage.ts';
import type { DecisionInput, PlannedOutput } from '../plan.ts';

/*
 * Compares planned outputs with catalog records.
 */

/** Reports whether the record equals the planned output in every field that `skip_same` requires. */
export function matchesRecord(record: OutputRecord | undefined, output: PlannedOutput): boolean {
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
 * Reports whether a valid state is enough to decide on `skip_same`, without looking at anything else. There
 * is no need to check whether planned paths block each other, because a state with such records is invalid.
 */
export function isSettledByState(
  { owner, workflow, planned }: Pick<DecisionInput, 'owner' | 'workflow' | 'planned'>,
  state: CatalogState,
): boolean {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const { outputs } = state.catalog;
  const recorded = byPath(outputs);
  if (!planned.every((output) => matchesRecord(recorded.get(output.path), output))) return false;
  if (workflow === 'additive') return true;
  const wanted = new Set<string>(planned.map(({ path }) => path));
  return outputs.every((record) => wanted.has(record.path) || !sameOwner(record.owner, owner));
}

/**
 * Returns the planned outputs that need not be written if their files still exist. These are recorded with
 * the same content, and with the same headers if the storage keeps headers. Paths that an unfinished attempt
 * may have touched are left out.
 */
export function reusableOutputs(
  planned: readonly PlannedOutput[],
  { outputs, pending }: Catalog,
  { keepsHeaders }: Pick<StorageFacts, 'keepsHeaders'>,
): PlannedOutput[] {
  const recorded = byPath(outputs);
  const announced = intentPaths(pending);
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

/** Returns the records by path. There can be half a million of them, so the index for each list is cached. */
export function byPath(records: readonly OutputRecord[]): ReadonlyMap<string, OutputRecord> {
  const known = indexes.get(records);
  if (known !== undefined) return known;
  const index = new Map<string, OutputRecord>();
  for (const record of records) index.set(record.path, record);
  indexes.set(records, index);
  return index;
}

export type PathSet = Pick<ReadonlySet<string>, 'has' | 'size'>;

/** Like `recordedPaths`, but avoids building another index of a large catalog where possible. */
export function recordedIn(state: CatalogState): PathSet {
  const isWhole = state.kind === 'valid' && state.catalog.pending === null;
  return isWhole ? byPath(state.catalog.outputs) : recordedPaths(state);
}

export function sameSource(a: SourceIdentity, b: SourceIdentity): boolean {
  return a.backend === b.backend && a.id === b.id && a.path === b.path;
}

/** Compares the headers that an object store saves with the content. */
export function sameHeaders(a: GeneratedMetadata, b: GeneratedMetadata): boolean {
  return a.contentType === b.contentType && a.cacheControl === b.cacheControl;
}

/** Reports whether both outputs come from the same generator, version and inputs, or neither is generated. */
export function sameGenerator(
  { generator: a }: GeneratedMetadata,
  { generator: b }: GeneratedMetadata,
): boolean {
  return a?.name === b?.name && a?.version === b?.version && a?.inputs === b?.inputs;
}

/*
 * Prepares a state's records for decisions.
 */

export interface KnownOutputs {
  records: OutputRecord[];
  /** The owner of each recorded or announced path, or null if the owner is unknown. */
  holders: Map<string, Owner | null>;
  /** Files that an interrupted attempt of the same owner was still going to remove. */
  unfinished: Key[];
}

export type ManagedState = Extract<CatalogState, { kind: 'valid' | 'legacy' }>;

export const noKnownOutputs: KnownOutputs = { records: [], holders: new Map(), unfinished: [] };

export function knownRecords(state: ManagedState, input: DecisionInput): KnownOutputs {
  if (state.kind === 'legacy') {
    const records = state.records.flatMap((record) => fromLegacy(record, input));
    return { records, holders: new Map(records.map(({ path, owner }) => [path, owner])), unfinished: [] };
  }
  const { outputs, pending } = state.catalog;
  const holders = new Map<string, Owner | null>();
  const own = pending !== null && sameOwner(pending.owner, input.owner);
  for (const path of pending?.removes ?? []) holders.set(path, own ? input.owner : null);
  for (const record of [...(pending?.outputs ?? []), ...outputs]) holders.set(record.path, record.owner);
  return { records: outputs, holders, unfinished: own ? unfinishedRemoves(pending) : [] };
}

/**
 * Returns the files to remove, sorted: outputs of this owner that are missing from the replacement, and files
 * that an interrupted attempt was still going to remove.
 */
export function omittedPaths(
  { planned, owner, workflow, observed }: DecisionInput,
  known: KnownOutputs,
): Key[] {
  const kept = new Set<string>(planned.map(({ path }) => path));
  const omitted = new Set<string>(known.unfinished.filter((path) => !kept.has(path)));
  if (workflow === 'replacement') {
    const announced = observed.state.kind === 'valid' ? (observed.state.catalog.pending?.outputs ?? []) : [];
    for (const record of [...known.records, ...announced])
      if (sameOwner(record.owner, owner) && !kept.has(record.path)) omitted.add(record.path);
  }
  return [...omitted].sort(compareCodeUnits).map(listedKey);
}

/**
 * Returns the files that an interrupted attempt was still going to remove, so that the same owner's next
 * attempt can finish the job. A prune is different: the next one picks its files from scratch.
 */
function unfinishedRemoves({ action, removes }: Pending): Key[] {
  return action === 'prune' ? [] : removes;
}

/**
 * Converts a record from a legacy state. Only version 3 recorded enough to be usable. The fields it lacks
 * never match a plan, so the output is written again.
 */
function fromLegacy({ path, v3 }: LegacyRecord, { owner, destinationPath }: DecisionInput): OutputRecord[] {
  if (v3 === null || !sameOwner(v3.owner, owner)) return [];
  return [
    {
      path,
      owner,
      source: { backend: 'local', id: 'legacy', path: destinationPath },
      kind: 'file',
      digest: v3.digest,
      size: v3.size,
      updatedAt: v3.updatedAt,
      generated: { contentType: null, cacheControl: null, generator: null },
      url: null,
    },
  ];
}
