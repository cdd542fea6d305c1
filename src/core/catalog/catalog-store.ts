import { type Digest, digestOf, finishDigest, startDigest } from '../lib/digest.ts';
import { hasCode, WaybillError } from '../lib/errors.ts';
import { stateName } from '../lib/paths.ts';
import { sourceBackends } from '../storage/backends.ts';
import { bytesBody, readAll, sizeAndDigest } from '../storage/body.ts';
import { joinKey } from '../storage/key.ts';
import type { Body, Storage } from '../storage/storage.ts';
import { CanonicalReader } from './canonical-reader.ts';
import { type Catalog, type CatalogState, maxCatalogBytes, maxWholeCatalogBytes } from './catalog.ts';
import { parseInMemory } from './parse.ts';
import { catalogBody } from './serialise.ts';

/*
 * Reads the state (`.publisher.json`) of a bundle path. Writing it requires a lease.
 */

export const stateKey = joinKey('', stateName);

export interface StoredState {
  state: CatalogState;
  /** The bytes in storage; null if there is no state. */
  raw: RawState | null;
}

export interface StateBytes {
  size: number;
  digest: Digest;
}

/** The bytes of a state, so that a failed attempt can put them back. */
interface RawState extends StateBytes {
  /** To save memory, these are generated from the catalog if it is in canonical form. */
  body: Body;
}

const lastRead = new WeakMap<Storage, StoredState>();

/** While a state is read, it is buffered if it has no more than this many bytes. */
const heldBytes = 1 << 20;

/**
 * Reads the state of the bundle path that `storage` is rooted at. If it cannot be read, throws the storage's
 * error: a state that is unreadable must never look as if it did not exist. Throws `storage_permanent` if the
 * state is larger than 512 MiB, or 256 MiB if it is not in canonical form.
 *
 * A publication reads the state twice, before and after it takes the lease. If the bytes are the same, they
 * are not parsed again, and both results share the same records.
 */
export async function readState(storage: Storage): Promise<StoredState> {
  const last = lastRead.get(storage);
  if (last?.raw != null && last.raw.size > heldBytes && isSameBytes(await measureState(storage), last.raw))
    return last;
  const read = await readFrom(storage, last);
  lastRead.set(storage, read);
  return read;
}

async function readFrom(storage: Storage, last: StoredState | undefined): Promise<StoredState> {
  const hash = startDigest();
  const reader = new CanonicalReader(sourceBackends);
  /** The chunks read so far; null once they are larger than `heldBytes`. */
  let chunks: Uint8Array[] | null = [];
  let size = 0;
  try {
    for await (const chunk of storage.read(stateKey)) {
      size += chunk.byteLength;
      if (size > maxCatalogBytes) throw tooLarge(storage);
      hash.update(chunk);
      chunks?.push(chunk);
      if (size <= heldBytes) continue;
      for (const next of chunks ?? [chunk]) if (!reader.push(next)) return await readWhole(storage);
      chunks = null;
    }
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return { state: { kind: 'absent' }, raw: null };
    throw error;
  }
  const found = { size, digest: finishDigest(hash) };
  if (last !== undefined && isSameBytes(found, last.raw)) return last;
  const isCanonical = chunks?.every((chunk) => reader.push(chunk)) ?? true;
  const catalog = isCanonical ? reader.catalog() : null;
  if (catalog !== null) {
    const body: Body = { size, open: () => catalogBody(catalog).open() };
    return { state: { kind: 'valid', catalog }, raw: { ...found, body } };
  }
  return chunks === null ? readWhole(storage) : wholeState(Buffer.concat(chunks), found);
}

/** Reads a state that is not in canonical form. */
async function readWhole(storage: Storage): Promise<StoredState> {
  try {
    const bytes = await readAll(storage, stateKey, maxWholeCatalogBytes);
    return wholeState(bytes, { size: bytes.byteLength, digest: digestOf(bytes) });
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return { state: { kind: 'absent' }, raw: null };
    throw error;
  }
}

function wholeState(bytes: Buffer, found: StateBytes): StoredState {
  return { state: parseInMemory(bytes, sourceBackends), raw: { ...found, body: bytesBody(bytes) } };
}

/**
 * Like `readState`, but also returns the version, for a conditional write. The version is read first. If the
 * state changes between the two calls, the conditional write fails, as it should.
 */
export async function readVersionedState(
  storage: Storage,
): Promise<StoredState & { version: string | null }> {
  const found = await storage.stat(stateKey);
  if (found === undefined) return { state: { kind: 'absent' }, raw: null, version: null };
  return { ...(await readState(storage)), version: found.version };
}

/**
 * Returns the size and digest of the state without loading it into memory. Returns null if there is no state.
 * Throws the same errors as `readState`.
 */
export async function measureState(storage: Storage): Promise<StateBytes | null> {
  try {
    return await sizeAndDigest(storage.read(stateKey));
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}

/** Reports whether both are the same bytes. null stands for no state. */
export function isSameBytes(a: StateBytes | null, b: StateBytes | null): boolean {
  return a === null || b === null ? a === b : a.size === b.size && a.digest === b.digest;
}

function tooLarge(storage: Storage): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: "${stateKey}" is larger than ${maxCatalogBytes} bytes`,
  );
}

/** Returns the catalog if the state is valid. Otherwise, throws a `state_conflict` error with a hint. */
export function requireCatalog(state: CatalogState): Catalog {
  switch (state.kind) {
    case 'valid':
      return state.catalog;
    case 'absent':
      throw new WaybillError('state_conflict', 'the catalog was removed while it was in use');
    case 'legacy':
      throw new WaybillError('state_conflict', `the catalog has the old schema version ${state.version}`, {
        hint: 'publish once to rewrite it as version 4',
      });
    case 'future':
      throw new WaybillError(
        'state_conflict',
        `the catalog has schema version ${state.version}, which is newer than this waybill supports`,
        { hint: 'use a newer waybill' },
      );
    case 'invalid':
      throw new WaybillError('state_conflict', `the catalog is invalid: ${state.reason}`, {
        hint: 'restore it from a backup, or publish once with --force to replace everything below that path',
      });
  }
}

/**
 * Runs `replace`, which replaces or removes the state. If it throws, `isReplaced` reads the state to find out
 * whether it worked after all and only the response was lost. In that case, returns normally. Throws
 * `commit_unknown` if this remains unclear, because the state cannot be read, or because `replace` threw
 * `storage_transient` and its request may still reach the server. In all other cases, throws the error from
 * `replace`.
 */
export async function verifyWrite(
  storage: Pick<Storage, 'label'>,
  replace: () => Promise<void>,
  isReplaced: () => Promise<boolean>,
): Promise<void> {
  try {
    await replace();
  } catch (failure) {
    const unknown = (cause: unknown): WaybillError =>
      new WaybillError('commit_unknown', `${storage.label}: it is unknown whether the catalog was replaced`, {
        cause,
        hint: 'run again: the next run checks the catalog and finishes; nothing was deleted',
      });
    const wasReplaced = await isReplaced().catch((cause: unknown) => {
      throw unknown(cause);
    });
    if (wasReplaced) return;
    // If the request timed out, it may still reach the server later.
    if (hasCode(failure, 'storage_transient')) throw unknown(failure);
    throw failure;
  }
}

/** Reports whether the state in storage consists of exactly these bytes. Throws the storage's error. */
export async function isStoredState(storage: Storage, body: Body): Promise<boolean> {
  const present = await measureState(storage);
  return present?.size === body.size && isSameBytes(present, await sizeAndDigest(body.open()));
}
