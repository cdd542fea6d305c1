import { sameOwner, type Owner } from '../storage/identity.ts';
import { stateName } from '../lib/paths.ts';
import { nameOf, parentOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { isInBundlePath } from './managed-paths.ts';
import { readState, stateKey } from './store.ts';

/** Limits of `lastPublished`, which returns null if it would exceed one. */
export interface LookLimits {
  /** The maximum number of listed entries. */
  entries: number;
  /** The maximum number of catalogs whose modification time is requested. */
  catalogs: number;
  /** The number of newest catalogs to read. This one is not exceeded: older catalogs are ignored. */
  read: number;
  /** The maximum size of a catalog that is read, in bytes. */
  bytes: number;
}

const mebibyte = 1024 * 1024;
export const lookLimits: LookLimits = { entries: 20_000, catalogs: 500, read: 5, bytes: 16 * mebibyte };

/**
 * The time of this owner's last commit at the destination, according to its catalogs; null if they do not
 * record one or the limits are exceeded. Later runs that found nothing to do leave no trace in a catalog.
 * `storage` is rooted at the destination. Takes no lease. Throws the storage's error.
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

/** The managed bundle paths; null if the listing exceeds the limits. */
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
 * The most recently written catalogs. Each commit writes its catalog, so the last commit is in one of them.
 * null if one of them is too large to read.
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
  // The records of an uncommitted attempt are in `pending`, so they are not counted.
  const own = state.catalog.outputs.filter((output) => sameOwner(output.owner, owner));
  return own.map(({ updatedAt }) => Date.parse(updatedAt));
}
