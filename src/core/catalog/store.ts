import { hasCode } from '../errors.ts';
import { stateName } from '../reserved-names.ts';
import { readAll } from '../storage/body.ts';
import { joinKey } from '../storage/key.ts';
import { sourceBackends } from '../storage/backends.ts';
import type { Storage } from '../storage/storage.ts';
import { maxCatalogBytes, type CatalogState } from './catalog.ts';
import { parseState } from './parse-state.ts';

export const stateKey = joinKey('', stateName);

export interface StoredState {
  state: CatalogState;
  /** The bytes as they were found, so that a clean failure can put them back; null if there is no state. */
  raw: Buffer | null;
}

/** The last state that was read of each storage, as long as that is in use. */
const lastRead = new WeakMap<Storage, StoredState>();

/**
 * Reads the state at the bundle path that `storage` is rooted at. Throws the storage's error if the state
 * cannot be read, and `storage_permanent` if it is larger than 256 MiB: an unreadable state is never "no
 * state". The same bytes as the last time are not parsed again, and are in memory once: a publication reads
 * its state before it takes the lease and after.
 */
export async function readState(storage: Storage): Promise<StoredState> {
  const raw = await readRaw(storage);
  const last = lastRead.get(storage);
  if (raw !== null && last?.raw?.equals(raw) === true) return last;
  const read: StoredState = {
    state: raw === null ? { kind: 'absent' } : parseState(raw, sourceBackends),
    raw,
  };
  lastRead.set(storage, read);
  return read;
}

/**
 * Like `readState`; also returns the version, for a conditional write. The version is asked for first: if the
 * state changes between the two calls, the condition fails.
 */
export async function readVersionedState(
  storage: Storage,
): Promise<StoredState & { version: string | null }> {
  const found = await storage.stat(stateKey);
  if (found === undefined) return { state: { kind: 'absent' }, raw: null, version: null };
  return { ...(await readState(storage)), version: found.version };
}

/** The bytes of the state, not parsed; null if there is none. Throws as `readState` does. */
export async function readRaw(storage: Storage): Promise<Buffer | null> {
  try {
    return await readAll(storage, stateKey, maxCatalogBytes);
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}
