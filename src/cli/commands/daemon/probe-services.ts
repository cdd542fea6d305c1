import { readdirSync } from 'node:fs';
import type { BullmqConfig } from '../../../core/config/config.ts';
import type { DatabaseConfig } from '../../../core/config/weather/databases.ts';
import type { CoreContext } from '../../../core/context.ts';
import { hasCode, recordedError, WaybillError } from '../../../core/lib/errors.ts';
import { silentLog } from '../../../core/lib/log.ts';
import { onAbort } from '../../../core/lib/on-abort.ts';
import { reachServer } from '../../../core/lib/reach-server.ts';
import { firstRefusal, type Probe, probeStorage } from '../../../core/maintain/probe.ts';
import { type NotifierConfig, sinkKindOf } from '../../../core/notify/sink-kinds.ts';
import type { OpenOptions } from '../../../core/storage/backend.ts';
import type { StorageLocation } from '../../../core/storage/backends.ts';
import type { Storage } from '../../../core/storage/storage.ts';
import { tryReadableDirectory, tryWritableDirectory } from './probe-machine.ts';

/** How long to wait for the weather database, in milliseconds. Normally it responds much sooner. */
const answerWithinMs = 5_000;

/**
 * Connects to a weather database and runs a query. An embedded database is not opened, since only one process
 * can do that at a time.
 */
export async function tryDatabase({ secrets }: CoreContext, database: DatabaseConfig): Promise<string> {
  if (database.driver === 'pglite') return tryReadableDirectory(database.directory);
  const { openDatabase } = await import('../../../weather/database/open-database.ts');
  const opened = await openDatabase(database, { secrets, deadlineMs: answerWithinMs });
  try {
    await opened.probe();
  } finally {
    await opened.close();
  }
  return 'connected, logged in and queried';
}

/** Connects to the server of a notifier, without sending anything. */
export async function tryNotifier(
  { clock, secrets }: CoreContext,
  notifier: NotifierConfig,
  signal: AbortSignal,
): Promise<string> {
  const warnings: string[] = [];
  const found = await sinkKindOf(notifier).reach(notifier, {
    clock,
    secrets,
    log: silentLog,
    neededBy: `notifier "${notifier.id}"`,
    warn: ({ message }) => void warnings.push(message),
    signal,
  });
  return [found, ...warnings].join('; ');
}

/** Connects to the tracing collector, without sending anything. */
export async function tryCollector(endpoint: string, signal: AbortSignal): Promise<string> {
  try {
    await reachServer(new URL(endpoint), { signal });
    return 'connected to';
  } catch (cause) {
    signal.throwIfAborted();
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'no connection';
    throw new WaybillError('unreachable', `the collector ${endpoint} cannot be reached (${code})`, {
      hint: 'start it, or correct tracing.endpoint',
      cause,
    });
  }
}

/** The free space that is required for staging, in bytes. */
export { minFreeBytes as minRoom } from '../../../workers/staging/staging-check.ts';

/** How long to wait for the queue's Redis server, in milliseconds. Normally it responds much sooner. */
const queueAnswerMs = 5_000;

/**
 * Connects to the queue's Redis server, logs in, and checks its settings. Returns the result as text, with
 * warnings about settings that can lead to data loss. Throws the same errors as `RedisLink.open`.
 */
export async function tryQueue({ clock, secrets }: CoreContext, queue: BullmqConfig): Promise<string> {
  const doubts: string[] = [];
  const log = { ...silentLog, warn: (_: object, message: string) => void doubts.push(message) };
  const { RedisLink } = await import('../../../workers/bullmq/link.ts');
  const { redisServer } = await import('../../../workers/bullmq/redis-client.ts');
  const server = redisServer(queue, secrets);
  const link = await RedisLink.open({ ...server, log, clock, withinMs: queueAnswerMs });
  link.close();
  return ['connected and logged in', ...doubts].join('; ');
}

/** Connects to a source, logs in, and lists its files. Does not change anything, not even the known hosts. */
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
  return openAndProbe(context, location, options, signal, async (storage) => {
    const { latencyMs, rights } = await probeStorage(storage, context.clock, { write: false });
    if (rights.list.error !== null) throw recordedError(rights.list.error);
    return `reached and listed; ${milliseconds(latencyMs)}`;
  });
}

/**
 * Checks a destination. On a server, this makes the same calls as publishing, with small files under reserved
 * names that are deleted afterwards. Nothing is written to a local directory, or if the root directory on a
 * server does not exist yet.
 */
export async function tryDestination(
  context: CoreContext,
  location: StorageLocation,
  signal: AbortSignal,
): Promise<string> {
  if (location.backend === 'local') return tryWritableDirectory(location.path);
  const options = { readOnly: false, dryRun: true };
  try {
    return await openAndProbe(context, location, { ...options, mustExist: true }, signal, async (storage) => {
      const probe = await probeStorage(storage, context.clock, { write: true });
      const refusal = firstRefusal(probe);
      if (refusal !== null) throw recordedError(refusal);
      const alone =
        probe.conditionalWrites === 'none'
          ? '; honors no conditional writes: let one publisher write there at a time'
          : '';
      return `reached, written to and cleaned; ${milliseconds(probe.latencyMs)}${alone}`;
    });
  } catch (error) {
    // A missing directory is fine, because it is created when something is published. Buckets are never
    // created.
    if (location.backend === 's3' || !hasCode(error, 'storage_not_found')) throw error;
    return openAndProbe(
      context,
      location,
      options,
      signal,
      async () => 'reached; the directory does not exist, but can be created',
    );
  }
}

async function openAndProbe(
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

function milliseconds(latency: Probe['latencyMs']): string {
  return latency === null ? 'no latency' : `${latency.median.toFixed(1)} ms an answer`;
}
