import { sameOwner, type Owner } from '../identity.ts';
import { stateName } from '../reserved-names.ts';
import { nameOf, parentOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { isInBundlePath } from './managed-paths.ts';
import { readState, stateKey } from './store.ts';

/** How far a look goes; whatever lies beyond makes its answer null. */
export interface LookLimits {
  /** Entries that are listed. */
  entries: number;
  /** Catalogs whose time of modification is asked for. */
  catalogs: number;
  /** Of these, the newest that are read. */
  read: number;
  /** Bytes of a catalog that is read. */
  bytes: number;
}

const mebibyte = 1024 * 1024;
export const lookLimits: LookLimits = { entries: 20_000, catalogs: 500, read: 5, bytes: 16 * mebibyte };

/**
 * When this owner last changed anything at the destination that the storage is opened at, as its catalogs
 * tell; null if they do not, or if finding it out would cost more than the limits allow. It is the time of a
 * commit: a later run that found everything published is not in a catalog. Reads, and takes no lease. Throws
 * the storage's error.
 */
export async function lastPublished(
  storage: Storage,
  owner: Owner,
  mapping: 'preserve_relative' | 'fixed',
  limits: LookLimits = lookLimits,
): Promise<Date | null> {
  const paths = mapping === 'fixed' ? ([''] as const) : await bundlePaths(storage, limits);
  if (paths === null) return null;
  const newest = await newestCatalogs(storage, paths, limits);
  if (newest === null) return null;
  const times: number[] = [];
  for (const path of newest) times.push(...(await committedBy(within(storage, path), owner)));
  const last = times.reduce((a, b) => Math.max(a, b), -Infinity);
  return Number.isFinite(last) ? new Date(last) : null;
}

/** The managed bundle paths; null if the listing is longer than the limits allow. */
async function bundlePaths(storage: Storage, limits: LookLimits): Promise<(Key | '')[] | null> {
  const paths: (Key | '')[] = [];
  let entries = 0;
  for await (const { key, type } of storage.list('', { recursive: true })) {
    entries += 1;
    if (type === 'file' && nameOf(key) === stateName && isInBundlePath(key)) paths.push(parentOf(key));
    if (entries > limits.entries || paths.length > limits.catalogs) return null;
  }
  return paths;
}

/**
 * Those that were written last: a commit writes its catalog, so the newest commit is among them. Null if one
 * of them is too large to be read for this.
 */
async function newestCatalogs(
  storage: Storage,
  paths: readonly (Key | '')[],
  limits: LookLimits,
): Promise<(Key | '')[] | null> {
  const found: { path: Key | ''; at: number; size: number }[] = [];
  for (const path of paths) {
    const stat = await within(storage, path).stat(stateKey);
    if (stat !== undefined) found.push({ path, at: stat.modifiedAt?.getTime() ?? 0, size: stat.size });
  }
  const newest = found.sort((a, b) => b.at - a.at).slice(0, limits.read);
  return newest.some(({ size }) => size > limits.bytes) ? null : newest.map(({ path }) => path);
}

async function committedBy(bundle: Storage, owner: Owner): Promise<number[]> {
  const { state } = await readState(bundle);
  if (state.kind !== 'valid') return [];
  // Of an attempt that was not committed there are records, too, and those stand in `pending`.
  const own = state.catalog.outputs.filter((output) => sameOwner(output.owner, owner));
  return own.map(({ updatedAt }) => Date.parse(updatedAt));
}
