import { verifyWrite } from '../catalog/catalog-store.ts';
import { destinationBusy, isContention, type Lease } from '../catalog/lease/lease.ts';
import { guardWithLease, type LeaseContext, withLease } from '../catalog/lease/with-lease.ts';
import { hasCode, WaybillError } from '../lib/errors.ts';
import { reservedPrefix } from '../lib/paths.ts';
import { bytesBody, readAll } from '../storage/body.ts';
import { joinKey, type Key } from '../storage/key.ts';
import { canReplaceLinks, type Storage } from '../storage/storage.ts';
import { noLinks } from '../storage/storage-errors.ts';
import { type Ledger, noReleases, type Releases } from './ledger.ts';
import { maxLedgerBytes, parseReleases, serialiseReleases } from './ledger-json.ts';
import {
  channelLinkKey,
  currentLinkKey,
  currentObjectKey,
  parsePointerTarget,
  type ReleaseId,
  releaseKey,
} from './release.ts';
import { releaseIds } from './stored-releases.ts';

/*
 * Reads and changes the pointers and the ledger of a bundle path. On a file system, the pointer is a symbolic
 * link and the ledger is a file next to it. They are changed under the lease of the bundle path, first the
 * ledger and then the pointer. On an object store, a single object serves as both. It is written on the
 * condition that its version has not changed. If another process was faster, the change is decided again.
 */

export const ledgerKey = joinKey('', `${reservedPrefix}.releases.json`);

export interface ReleasesChange<T> {
  /** The value for `changeReleases` to return. */
  result: T;
  /** The pointers and ledger to write; null to change nothing. */
  next: NextReleases | null;
}

interface NextReleases {
  ledger: Ledger;
  /** The release to make current; null to remove the pointer. */
  current: ReleaseId | null;
  /** The new targets of channels that change; null to remove a pointer. Default: no channel changes. */
  channels?: ReadonlyMap<string, ReleaseId | null>;
}

/** How many times to try if other processes keep changing the object first. */
const maxTries = 20;

/**
 * Throws a `storage_permanent` error unless the storage can replace a link atomically, or write an object on
 * a condition. Without that, readers could see a mix of two releases, or one publisher could overwrite
 * another publisher's change.
 */
export async function requireReleases(storage: Storage): Promise<void> {
  const hint = 'use `layout: in_place` for this destination, or another server';
  if (storage.rename === undefined) {
    if ((await storage.facts.conditionalWrites()) === 'full') return;
    throw new WaybillError(
      'storage_permanent',
      `${storage.label}: releases need a server with conditional writes (If-Match), which this one does not support`,
      { hint },
    );
  }
  if (canReplaceLinks(storage)) return;
  throw new WaybillError(
    'storage_permanent',
    `${storage.label}: releases need a server that replaces links in one step (posix-rename@openssh.com), which this one does not support`,
    { hint },
  );
}

/**
 * Reads the pointers and the ledger of the bundle path that `storage` is rooted at. Throws `state_conflict`
 * if the ledger is malformed, or the storage's error.
 */
export async function readReleases(storage: Storage): Promise<Releases> {
  if (storage.readLink === undefined) return (await readObject(storage)).releases;
  const target = await storage.readLink(currentLinkKey);
  const bytes = await readIfPresent(storage, ledgerKey);
  const { ledger } = bytes === null ? noReleases : parseReleases(bytes, quotedKey(storage, ledgerKey));
  const current = target === null ? null : parsePointerTarget(target);
  const channels = new Map<string, ReleaseId>();
  for (const { name } of ledger.channels) {
    const id = parsePointerTarget((await storage.readLink(channelLinkKey(name))) ?? '');
    if (id !== null) channels.set(name, id);
  }
  return { ledger, current, foreignTarget: current === null ? target : null, channels };
}

/**
 * Reads the pointers and the ledger, calls `decide`, and writes the result. No other process can make a
 * change in between. `decide` may run more than once. It has to make sure that the release to activate is
 * usable.
 *
 * Throws any error from `decide`, `destination_busy` if other processes keep changing the object first,
 * `lease_lost`, `commit_unknown` if it may or may not have worked, or the storage's error.
 */
export async function changeReleases<T>(
  context: LeaseContext,
  storage: Storage,
  decide: (releases: Releases) => Promise<ReleasesChange<T>>,
): Promise<T> {
  const updatedAt = (): string => context.clock.now().toISOString();
  if (storage.rename === undefined) return changeObject(storage, decide, updatedAt);
  const underLease = async (lease: Lease): Promise<T> => {
    const releases = await readReleases(storage);
    const { result, next } = await decide(releases);
    if (next !== null) await changeFiles(storage, lease, releases, next, updatedAt());
    return result;
  };
  return withLease(context, storage, underLease);
}

/**
 * Removes the ledger of a bundle path that has no releases anymore. On an object store, the ledger stays,
 * because not all servers support conditional deletes. The same object is the pointer there, and says that no
 * release is current. Throws the same errors as `changeReleases`.
 */
export async function forgetReleases(context: LeaseContext, storage: Storage): Promise<void> {
  if (storage.rename === undefined) return;
  const underLease = async (lease: Lease): Promise<void> => {
    const { current } = await readReleases(storage);
    if (current !== null || (await releaseIds(storage)).length > 0) return;
    await guardWithLease(storage, lease).remove(ledgerKey);
  };
  await withLease(context, storage, underLease);
}

async function changeFiles(
  storage: Storage,
  lease: Lease,
  found: Releases,
  { ledger, current, channels = new Map<string, null>() }: NextReleases,
  updatedAt: string,
): Promise<void> {
  const guarded = guardWithLease(storage, lease);
  // Remove a pointer before its ledger entry. A pointer without an entry would be there forever.
  for (const [name, id] of channels)
    if (id === null && found.channels.has(name)) await setLink(guarded, lease, channelLinkKey(name), null);
  if (ledger !== found.ledger) {
    const bytes = serialiseReleases(ledger, { updatedAt });
    const write = async (): Promise<void> => {
      await guarded.write(ledgerKey, bytesBody(bytes), { mode: 'replace' });
    };
    await verifyWrite(storage, write, async () => isStored(storage, ledgerKey, bytes));
  }
  if (current !== found.current) await setLink(guarded, lease, currentLinkKey, current);
  for (const [name, id] of channels)
    if (id !== null && found.channels.get(name) !== id)
      await setLink(guarded, lease, channelLinkKey(name), id);
}

/** Changes the link atomically. If `id` is null, removes it. */
async function setLink(storage: Storage, lease: Lease, key: Key, id: ReleaseId | null): Promise<void> {
  const target = id === null ? null : releaseKey(id);
  await lease.fence();
  await verifyWrite(
    storage,
    async () => {
      if (target === null) return storage.remove(key);
      if (!canReplaceLinks(storage)) throw noLinks(storage);
      return storage.replaceLink(key, target);
    },
    async () => ((await storage.readLink?.(key)) ?? null) === target,
  );
}

async function changeObject<T>(
  storage: Storage,
  decide: (releases: Releases) => Promise<ReleasesChange<T>>,
  updatedAt: () => string,
): Promise<T> {
  for (let tries = 1; tries <= maxTries; tries += 1) {
    const { releases, version } = await readObject(storage);
    const { result, next } = await decide(releases);
    if (next === null) return result;
    const bytes = serialiseReleases(next.ledger, { updatedAt: updatedAt(), current: next.current });
    const condition =
      version === null ? ({ mode: 'create' } as const) : { mode: 'replace' as const, ifVersion: version };
    const headers = { contentType: 'application/json', cacheControl: 'no-cache' };
    try {
      await verifyWrite(
        storage,
        async () => {
          await storage.write(currentObjectKey, bytesBody(bytes), { ...condition, headers });
        },
        async () => isStored(storage, currentObjectKey, bytes),
      );
      return result;
    } catch (error) {
      if (!isContention(error)) throw error;
    }
  }
  throw destinationBusy(storage, null);
}

/**
 * Reads the version before the content. If the object changes between the two calls, the conditional write
 * fails, as it should.
 */
async function readObject(storage: Storage): Promise<{ releases: Releases; version: string | null }> {
  const version = (await storage.stat(currentObjectKey))?.version ?? null;
  const bytes = version === null ? null : await readIfPresent(storage, currentObjectKey);
  if (bytes === null) return { releases: noReleases, version: null };
  return { releases: parseReleases(bytes, quotedKey(storage, currentObjectKey)), version };
}

async function readIfPresent(storage: Storage, key: Key): Promise<Buffer | null> {
  try {
    return await readAll(storage, key, maxLedgerBytes);
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}

async function isStored(storage: Storage, key: Key, bytes: Buffer): Promise<boolean> {
  return (await readIfPresent(storage, key))?.equals(bytes) === true;
}

function quotedKey({ label }: Storage, key: Key): string {
  return `${label}: "${key}"`;
}
