import {
  bundlesOf,
  type CatalogState,
  nextGeneration,
  type OutputRecord,
  recordedPaths,
} from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/catalog-store.ts';
import { sweepAbandoned, withLease } from '../catalog/lease/with-lease.ts';
import { displayPath, requireManagedSurvey, surveyDestination } from '../catalog/managed-paths.ts';
import type { CoreContext } from '../context.ts';
import { type ErrorRecord, errorRecord } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { noReleases } from '../releases/ledger.ts';
import { currentLinkKey, currentObjectKey, releasePathOf } from '../releases/release.ts';
import { readReleases } from '../releases/releases-store.ts';
import { type Owner, sameOwner } from '../storage/identity.ts';
import { type Key, listedKey, nameOf, parentOf, parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';

interface ReconcileOptions {
  owner: Owner;
  /** Only report. Nothing is written, and no lease is taken. */
  dryRun: boolean;
  /** Repair the records of all owners, not just those of `owner`. */
  allOwners: boolean;
}

export interface ReconcileReport {
  /** The managed bundle path; `.` for the root, which is reported even if it is not managed. */
  destinationPath: string;
  /**
   * Recorded outputs that do not exist. If `repaired` is true, the record was removed or, in a dry run, would
   * be. Releases keep all their records, because otherwise, one with missing files would look complete.
   */
  missing: { path: string; owner: Owner; repaired: boolean }[];
  /** Files without a record, sorted. They are reported and left alone. */
  unmanaged: string[];
  /** The reason why this bundle path could not be reconciled; null otherwise. */
  error: ErrorRecord | null;
}

/**
 * Compares every catalog at a destination with a single listing of the storage, and removes the records of
 * outputs that do not exist. Files that are not in any managed bundle path are reported for the root. Outputs
 * are never read, deleted or adopted, and an invalid state is never changed. Throws `bundle_not_found` if
 * there is no state at the destination, or the storage's error if it cannot be listed. If a bundle path
 * fails, its report says so.
 */
export async function reconcile(
  context: CoreContext,
  root: Storage,
  options: ReconcileOptions,
): Promise<ReconcileReport[]> {
  const { paths, files, strays } = await requireManagedSurvey(root);
  const reports: ReconcileReport[] = [];
  // If the root is managed, files that are not in another bundle path belong to it.
  const atRoot = files.get('') ?? new Set<string>();
  const pointers = await findPointers(root, [...strays, ...[...atRoot].map(listedKey)], paths);
  for (const pointer of pointers) atRoot.delete(pointer);
  for (const path of paths)
    reports.push(
      await reconcilePath(context, subdirectory(root, path), path, files.get(path) ?? new Set(), options),
    );
  const unmanaged = strays.filter((key) => !pointers.has(key));
  if (unmanaged.length > 0)
    reports.unshift({ destinationPath: displayPath(''), missing: [], unmanaged, error: null });
  return reports;
}

/**
 * Returns the pointers at bundle paths with releases. If a ledger is malformed, it counts as having no
 * channels.
 */
async function findPointers(
  root: Storage,
  strays: readonly Key[],
  managed: readonly (Key | '')[],
): Promise<Set<Key>> {
  const withReleases = new Set(managed.flatMap((path) => releasePathOf(path)?.bundlePath ?? []));
  const pointers = new Set<Key>();
  for (const path of withReleases) {
    const candidates = strays.filter((key) => displayPath(parentOf(key)) === path);
    if (candidates.length === 0) continue;
    const known = await readReleases(subdirectory(root, parseBundlePath(path))).catch(() => noReleases);
    const names: string[] = [currentLinkKey, currentObjectKey, ...known.channels.keys()];
    for (const key of candidates) if (names.includes(nameOf(key))) pointers.add(key);
  }
  return pointers;
}

async function reconcilePath(
  context: CoreContext,
  storage: Storage,
  path: Key | '',
  present: ReadonlySet<string>,
  options: ReconcileOptions,
): Promise<ReconcileReport> {
  const destinationPath = displayPath(path);
  try {
    const { state } = await readState(storage);
    const compared = compare(state, present, { ...options, isRelease: releasePathOf(path) !== null });
    if (!options.dryRun && compared.missing.some(({ repaired }) => repaired))
      await repair(context, storage, options);
    else if (!options.dryRun) await sweepAbandoned(context, storage, state);
    return { destinationPath, ...compared, error: null };
  } catch (error) {
    return { destinationPath, missing: [], unmanaged: [], error: errorRecord(error) };
  }
}

/** Compares a state with the files that exist. Throws a `state_conflict` error if the state is invalid. */
function compare(
  state: CatalogState,
  present: ReadonlySet<string>,
  { isRelease, ...options }: ReconcileOptions & { isRelease: boolean },
): Pick<ReconcileReport, 'missing' | 'unmanaged'> {
  const { outputs } = requireCatalog(state);
  const managed = recordedPaths(state);
  return {
    missing: outputs
      .filter(({ path }) => !present.has(path))
      .map(({ path, owner }) => ({ path, owner, repaired: !isRelease && isRepaired(owner, options) })),
    unmanaged: [...present].filter((path) => !managed.has(path)).sort(compareCodeUnits),
  };
}

function isRepaired(owner: Owner, options: ReconcileOptions): boolean {
  return options.allOwners || sameOwner(owner, options.owner);
}

/** Takes the lease and compares again, since missing outputs may have been published in the meantime. */
async function repair(context: CoreContext, storage: Storage, options: ReconcileOptions): Promise<void> {
  await withLease(context, storage, async (lease) => {
    const catalog = requireCatalog(lease.found.state);
    const present = (await surveyDestination(storage)).files.get('');
    if (present === undefined) return void requireCatalog({ kind: 'absent' });
    const stays = ({ path, owner }: OutputRecord): boolean =>
      present.has(path) || !isRepaired(owner, options);
    const outputs = catalog.outputs.filter(stays);
    if (outputs.length === catalog.outputs.length) return;
    const updatedAt = context.clock.now().toISOString();
    const bundles = bundlesOf(catalog.bundles, outputs);
    await lease.writeState({
      ...catalog,
      generation: nextGeneration(catalog.generation),
      updatedAt,
      bundles,
      outputs,
    });
  });
}
