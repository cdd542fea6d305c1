import { compareCodeUnits } from '../paths.ts';
import { isReservedPath } from '../reserved-names.ts';
import type { Catalog, CatalogState, OutputRecord } from '../catalog/catalog.ts';
import { sameOwner, type Owner } from '../identity.ts';
import { readState } from '../catalog/store.ts';
import { sweepAbandoned, withLease } from '../lease/with-lease.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../errors.ts';
import { nameOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { reportedPath, requireManagedPaths } from './managed-paths.ts';

export interface ReconcileOptions {
  owner: Owner;
  dryRun: boolean;
  /** Repair the records of every owner, not only the selected one's. */
  allOwners: boolean;
}

export interface ReconcileReport {
  destinationPath: string;
  /**
   * Recorded outputs that are not in storage; `repaired` where the record is, or in a dry run would be,
   * removed.
   */
  missing: { path: string; owner: Owner; repaired: boolean }[];
  /** Files that no record names. They are told and never touched. */
  unmanaged: string[];
  error: ErrorRecord | null;
}

/**
 * Holds the catalogs of a destination against what the storage lists, and removes the records of outputs that
 * are gone. Never deletes or adopts a file, reads no bytes, and leaves a state alone that it cannot read as
 * one.
 */
export async function reconcile(
  context: CoreContext,
  root: Storage,
  options: ReconcileOptions,
): Promise<ReconcileReport[]> {
  const paths = await requireManagedPaths(root);
  const reports: ReconcileReport[] = [];
  for (const path of paths) {
    const nested = paths.filter((other) => other !== path && (path === '' || other.startsWith(`${path}/`)));
    const inner = nested.map((other) => (path === '' ? other : other.slice(path.length + 1)));
    reports.push(await reconcilePath(context, within(root, path), reportedPath(path), inner, options));
  }
  return reports;
}

async function reconcilePath(
  context: CoreContext,
  storage: Storage,
  destinationPath: string,
  nested: readonly string[],
  options: ReconcileOptions,
): Promise<ReconcileReport> {
  try {
    const look = await compare(storage, (await readState(storage)).state, nested, options);
    if (!options.dryRun && look.missing.some(({ repaired }) => repaired))
      await repair(context, storage, nested, options);
    else if (!options.dryRun) await sweepAbandoned(context, storage);
    return { destinationPath, ...look, error: null };
  } catch (error) {
    return { destinationPath, missing: [], unmanaged: [], error: errorRecord(error) };
  }
}

async function compare(
  storage: Storage,
  state: CatalogState,
  nested: readonly string[],
  options: ReconcileOptions,
): Promise<Pick<ReconcileReport, 'missing' | 'unmanaged'>> {
  const { outputs, pending } = validCatalog(state);
  const present = await listFiles(storage, nested);
  const managed = new Set<string>([...outputs, ...(pending?.outputs ?? [])].map(({ path }) => path));
  for (const path of pending?.removes ?? []) managed.add(path);
  return {
    missing: outputs
      .filter(({ path }) => !present.has(path))
      .map(({ path, owner }) => ({ path, owner, repaired: isRepaired(owner, options) })),
    unmanaged: [...present].filter((path) => !managed.has(path)).sort(compareCodeUnits),
  };
}

function isRepaired(owner: Owner, options: ReconcileOptions): boolean {
  return options.allOwners || sameOwner(owner, options.owner);
}

/** Looks again under the lease: what was missing may have been published meanwhile. */
async function repair(
  context: CoreContext,
  storage: Storage,
  nested: readonly string[],
  options: ReconcileOptions,
): Promise<void> {
  await withLease(context, storage, async (lease) => {
    const catalog = validCatalog(lease.found.state);
    const present = await listFiles(storage, nested);
    const stays = ({ path, owner }: OutputRecord): boolean =>
      present.has(path) || !isRepaired(owner, options);
    const outputs = catalog.outputs.filter(stays);
    if (outputs.length === catalog.outputs.length) return;
    const updatedAt = context.clock.now().toISOString();
    await lease.writeState({ ...catalog, generation: catalog.generation + 1, updatedAt, outputs });
  });
}

export function validCatalog(state: CatalogState): Catalog {
  switch (state.kind) {
    case 'valid':
      return state.catalog;
    case 'absent':
      throw new WaybillError('state_conflict', 'the state is gone; it was there a moment ago');
    case 'legacy':
      throw new WaybillError(
        'state_conflict',
        `the state has the superseded schema version ${state.version}`,
        {
          hint: 'publish once; that rewrites it as version 4',
        },
      );
    case 'future':
      throw new WaybillError(
        'state_conflict',
        `the state has schema version ${state.version}, which is newer than this waybill understands`,
        {
          hint: 'use a newer waybill',
        },
      );
    case 'invalid':
      throw new WaybillError('state_conflict', `the state is invalid: ${state.reason}`, {
        hint: 'restore it from a backup, or publish once with --force, which replaces everything below that path',
      });
  }
}

/**
 * Every file of this bundle path: not the publisher's own, and not those of managed bundle paths below it.
 */
async function listFiles(storage: Storage, nested: readonly string[]): Promise<Set<string>> {
  const skipped = new Set(nested);
  const files = new Set<string>();
  const pending: (Key | '')[] = [''];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop())
    for await (const { key, type } of storage.list(directory, { recursive: false })) {
      if (isReservedPath(nameOf(key)) || skipped.has(key)) continue;
      if (type === 'directory') pending.push(key);
      else files.add(key);
    }
  return files;
}
