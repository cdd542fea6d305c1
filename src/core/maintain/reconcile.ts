import { compareCodeUnits } from '../paths.ts';
import type { CatalogState, OutputRecord } from '../catalog/catalog.ts';
import { bundlesOf } from '../catalog/published-bundles.ts';
import { recordedPaths } from '../catalog/recorded-paths.ts';
import { sameOwner, type Owner } from '../identity.ts';
import { readState, requireCatalog } from '../catalog/store.ts';
import { sweepAbandoned, withLease } from '../lease/with-lease.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, type ErrorRecord } from '../errors.ts';
import { noReleases } from '../releases/ledger.ts';
import { currentLinkKey, currentObjectKey, releasePathOf } from '../releases/release.ts';
import { readReleases } from '../releases/store.ts';
import { listedKey, nameOf, parentOf, parseBundlePath, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { reportedPath, requireManagedSurvey, surveyDestination } from '../catalog/managed-paths.ts';

export interface ReconcileOptions {
  owner: Owner;
  /** Report only; nothing is written and no lease is taken. */
  dryRun: boolean;
  /** Repair the records of every owner, not only those of `owner`. */
  allOwners: boolean;
}

export interface ReconcileReport {
  /** The managed bundle path; `.` for the root, also if only managed bundle paths below it are managed. */
  destinationPath: string;
  /**
   * Recorded outputs that are not in storage; `repaired` if the record is (or would be) removed. Never so
   * of a release, which does not change: without the record, it would pass for whole.
   */
  missing: { path: string; owner: Owner; repaired: boolean }[];
  /** Files that no record names, sorted. They are reported and never touched. */
  unmanaged: string[];
  /** Why this bundle path could not be reconciled; else null. */
  error: ErrorRecord | null;
}

/**
 * Compares every catalog of a destination with one listing of the storage, and removes the records of outputs
 * that are gone. What lies below no managed bundle path is reported for the root. Never deletes or adopts a
 * file, reads no output, and leaves a state that is not valid as it is. Throws `bundle_not_found` if the
 * destination holds no state, or the storage's error if it cannot be listed; what fails at one bundle path is
 * in its report.
 */
export async function reconcile(
  context: CoreContext,
  root: Storage,
  options: ReconcileOptions,
): Promise<ReconcileReport[]> {
  const { paths, files, strays } = await requireManagedSurvey(root);
  const reports: ReconcileReport[] = [];
  // Where the root is managed itself, what lies below no other bundle path counts as its content.
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

/** Those that are the pointers of bundle paths which have releases. A broken ledger names no channels. */
async function pointersAmong(
  root: Storage,
  strays: readonly Key[],
  managed: readonly (Key | '')[],
): Promise<Set<Key>> {
  const withReleases = new Set(managed.flatMap((path) => releasePathOf(path)?.bundlePath ?? []));
  const pointers = new Set<Key>();
  for (const path of withReleases) {
    const beside = strays.filter((key) => reportedPath(parentOf(key)) === path);
    if (beside.length === 0) continue;
    const known = await readReleases(within(root, parseBundlePath(path))).catch(() => noReleases);
    const names: string[] = [currentLinkKey, currentObjectKey, ...known.channels.keys()];
    for (const key of beside) if (names.includes(nameOf(key))) pointers.add(key);
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

/** Pure. Throws `state_conflict` if the state is not valid. */
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

/** Compares again under the lease: what was missing may have been published meanwhile. */
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
