import { readdirSync } from 'node:fs';
import type { CoreContext } from '../../../../core/context.ts';
import { hasCode, WaybillError, type ErrorRecord } from '../../../../core/lib/errors.ts';
import { firstRefusal, probeStorage, type Probe } from '../../../../core/maintain/probe.ts';
import { onAbort } from '../../../../core/lib/on-abort.ts';
import type { StorageLocation } from '../../../../core/storage/backends.ts';
import type { OpenOptions } from '../../../../core/storage/backend.ts';
import type { Storage } from '../../../../core/storage/storage.ts';
import { tryReadableDirectory, tryWritableDirectory } from './try-directory.ts';

/** A source: reached, logged in to, listed. Nothing is written, the key of a new host neither. */
export async function trySource(
  context: CoreContext,
  location: StorageLocation,
  signal: AbortSignal,
): Promise<string> {
  if (location.backend === 'local') {
    const found = tryReadableDirectory(location.path);
    return readdirSync(location.path).length === 0 ? `${found}; empty` : found;
  }
  const options = { readOnly: true, mustExist: true, dryRun: true };
  return opened(context, location, options, signal, async (storage) => {
    const { latencyMs, rights } = await probeStorage(storage, context.clock, { write: false });
    if (rights.list.error !== null) throw asThrown(rights.list.error);
    return `reached and listed; ${milliseconds(latencyMs)}`;
  });
}

/**
 * A destination. On a server a publication's calls are made on small files of reserved names, which are
 * removed again; in a directory, and where the root on a server is not there yet, nothing is written.
 */
export async function tryDestination(
  context: CoreContext,
  location: StorageLocation,
  signal: AbortSignal,
): Promise<string> {
  if (location.backend === 'local') return tryWritableDirectory(location.path);
  const options = { readOnly: false, dryRun: true };
  try {
    return await opened(context, location, { ...options, mustExist: true }, signal, async (storage) => {
      const probe = await probeStorage(storage, context.clock, { write: true });
      const refusal = firstRefusal(probe);
      if (refusal !== null) throw asThrown(refusal);
      const alone =
        probe.conditionalWrites === 'none'
          ? '; honours no conditional writes: let one publisher write there at a time'
          : '';
      return `reached, written to and cleaned; ${milliseconds(probe.latencyMs)}${alone}`;
    });
  } catch (error) {
    // A bucket is never made, and a directory with the first publication.
    if (location.backend === 's3' || !hasCode(error, 'storage_not_found')) throw error;
    return opened(
      context,
      location,
      options,
      signal,
      async () => 'reached; the directory is not there, and can be made',
    );
  }
}

async function opened(
  context: CoreContext,
  location: StorageLocation,
  options: OpenOptions,
  signal: AbortSignal,
  work: (storage: Storage) => Promise<string>,
): Promise<string> {
  const storage = await context.openStorage(location, options);
  const close = (): void => void storage.close().catch(() => undefined);
  const release = onAbort(signal, close);
  try {
    return await work(storage);
  } finally {
    release();
    await storage.close();
  }
}

function asThrown({ code, message, hint, findings }: ErrorRecord): WaybillError {
  return new WaybillError(code, message, { ...(hint === null ? {} : { hint }), findings });
}

function milliseconds(latency: Probe['latencyMs']): string {
  return latency === null ? 'no latency' : `${latency.median.toFixed(1)} ms an answer`;
}
