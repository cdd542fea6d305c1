import { bundlesOf, type CatalogState, type OutputRecord, recordedPaths } from '../catalog/catalog.ts';
import { sweepAbandoned, withLease } from '../catalog/lease/with-lease.ts';
import { reportedPath, requireManagedSurvey, surveyDestination } from '../catalog/managed-paths.ts';
import { readState, requireCatalog } from '../catalog/store.ts';
import type { CoreContext } from '../context.ts';
import { type ErrorRecord, errorRecord } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { noReleases } from '../releases/ledger.ts';
import { currentLinkKey, currentObjectKey, releasePathOf } from '../releases/release.ts';
import { readReleases } from '../releases/store.ts';
import { type Owner, sameOwner } from '../storage/identity.ts';
import { type Key, listedKey, nameOf, parentOf, parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';

export interface ReconcileOptions {
  owner: Owner;
  /** Only report. Writes nothing and takes no lease. */
  dryRun: boolean;
  /** Repair the records of every owner, not only those of `owner`. */
  allOwners: boolean;
}

export interface ReconcileReport {
  /** The managed bundle path; `.` for the root, which does not have to be managed itself. */
  destinationPath: string;
  /**
   * Recorded outputs that do not exist. `repaired` means that the record was, or would be, removed. A
   * release's records are never removed, because the damaged release would then look complete.
   */
  missing: { path: string; owner: Owner; repaired: boolean }[];
  /** Unrecorded files, sorted. They are reported but not changed. */
  unmanaged: string[];
  /** Why this bundle path could not be reconciled; otherwise null. */
  error: ErrorRecord | null;
}

/**
 * Compares all of a destination's catalogs with a single listing of the storage, and removes the records of
 * missing outputs. Files outside managed bundle paths are reported for the root. Never deletes, adopts or
 * reads outputs, and never changes an invalid state. Throws `bundle_not_found` if the destination has no
 * state, or the storage's error if it cannot be listed. Failures at a bundle path are included in its report.
 */
export async function reconcile(
  context: CoreContext,
  root: Storage,
  options: ReconcileOptions,
): Promise<ReconcileReport[]> {
  const { paths, files, strays } = await requireManagedSurvey(root);
  const reports: ReconcileReport[] = [];
  // If the root itself is managed, files outside other bundle paths count as its content.
  const atRoot = files.get('') ?? new Set<string>();
  const pointers = await pointersAmong(root, [...strays, ...[...atRoot].map(listedKey)], paths);
  for (const pointer of pointers) atRoot.delete(pointer);
  for (const path of paths)
    reports.push(
      await reconcilePath(context, within(root, path), path, files.get(path) ?? new Set(), options),
    );
  const unmanaged = strays.filter((key) => !pointers.has(key));
  if (unmanaged.length > 0)
    reports.unshift({ destinationPath: reportedPath(''), missing: [], unmanaged, error: null });
  return reports;
}

/**
 * Returns the pointers of bundle paths with releases. A malformed ledger is treated as having no channels.
 */
async function pointersAmong(
  root: Storage,
  strays: readonly Key[],
  managed: readonly (Key | '')[],
): Promise<Set<Key>> {
  const withReleases = new Set(managed.flatMap((path) => releasePathOf(path)?.bundlePath ?? []));
  const pointers = new Set<Key>();
  for (const path of withReleases) {
    const candidates = strays.filter((key) => reportedPath(parentOf(key)) === path);
    if (candidates.length === 0) continue;
    const known = await readReleases(within(root, parseBundlePath(path))).catch(() => noReleases);
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
  const destinationPath = reportedPath(path);
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

/** Compares a state with the existing files. Throws `state_conflict` if the state is invalid. */
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

/** Compares again under the lease, because missing outputs may have been published in the meantime. */
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
    await lease.writeState({ ...catalog, generation: catalog.generation + 1, updatedAt, bundles, outputs });
  });
}
