import { hasCode } from '../errors.ts';
import { readAll } from '../storage/body.ts';
import { joinKey } from '../storage/key.ts';
import { sourceBackends } from '../storage/backends.ts';
import type { Storage } from '../storage/storage.ts';
import type { CatalogState } from './catalog.ts';
import { stateName } from '../reserved-names.ts';
import { parseState } from './codec.ts';

export const stateKey = joinKey('', stateName);

/** Half a million records; a larger file is not a state. */
const stateLimitBytes = 256 * 1024 * 1024;

export interface StoredState {
  state: CatalogState;
  /** The bytes as they were found, so that a clean failure can put them back; null where there were none. */
  raw: Buffer | null;
}

/** Reads the state at a bundle path. What cannot be read throws: an unreadable state is never "no state". */
export async function readState(storage: Storage): Promise<StoredState> {
  const raw = await readRaw(storage);
  return { state: raw === null ? { kind: 'absent' } : parseState(raw, sourceBackends), raw };
}

/**
 * The same with its version, for who is to replace it on that condition. The version is asked for first:
 * where the state changes in between, the condition fails.
 */
export async function readVersionedState(
  storage: Storage,
): Promise<StoredState & { version: string | null }> {
  const found = await storage.stat(stateKey);
  if (found === undefined) return { state: { kind: 'absent' }, raw: null, version: null };
  return { ...(await readState(storage)), version: found.version };
}

export async function readRaw(storage: Storage): Promise<Buffer | null> {
  try {
    return await readAll(storage, stateKey, stateLimitBytes);
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}
