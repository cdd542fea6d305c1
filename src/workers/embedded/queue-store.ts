import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { type DirectoryLock, lockDirectory } from '../../core/lib/directory-lock.ts';
import { errorMessage, WaybillError } from '../../core/lib/errors.ts';
import { closeAll } from '../../core/lib/lifecycle.ts';
import type { Log } from '../../core/lib/log.ts';
import { syncDirectories } from '../../core/lib/sync.ts';
import {
  type Outbox,
  type OutboxEvent,
  type StoredUndelivered,
  type UndeliveredEvents,
  undeliveredInMemory,
} from '../../core/notify/outbox.ts';
import { createRoot } from '../../core/storage/local/local-root.ts';
import type { Journal, StoredRun } from '../memory/journal.ts';
import type { Pause } from '../queue/job-queue.ts';
import { inProcessRevokedSessions, type RevokedSessions } from '../queue/revoked-sessions.ts';
import { queueInUse } from '../staging/claimed-directory.ts';
import { frame } from './framing.ts';
import { GroupCommit } from './group-commit.ts';
import { createLmdb, dataFile, type LmdbFile, openLmdb } from './lmdb-file.ts';
import { readQueueFile } from './read-file.ts';
import { parseStoredRun, storedRunText, withStagedIn } from './stored-run.ts';
import { syncStaged } from './sync-staged.ts';

export interface QueueStoreOptions {
  /** The directory for the queue's files. Created if it does not exist. */
  directory: string;
  /** The directory that contains staged uploads. */
  staging: string;
  clock: Clock;
  log: Log;
  /** Called after a notifier's oldest undelivered events were deleted because there were too many. */
  onDropped?: (notifierId: string, count: number) => void;
  /** For tests that do not stage anything. */
  sync?: typeof syncStaged;
}

/** The files of one daemon's queue, with its runs and undelivered events. */
export interface QueueStore {
  readonly journal: Journal;
  readonly outbox: Outbox;
  readonly undelivered: UndeliveredEvents;
  readonly revokedSessions: RevokedSessions;
  /** Throws `insufficient_storage` or `queue_unavailable` if nothing can be written right now. */
  check(): void;
  /**
   * Waits up to a few seconds until everything has been written, then releases the directory. If it is called
   * again, the second call waits for the first.
   */
  close(): Promise<void>;
}

/** The version of the file format. There are no older versions, and newer ones are rejected. */
const version = 1;
const versionKey = 'meta/version';
const ownerKey = 'meta/owner';
const eventPrefix = 'event/';
const pausePrefix = 'pause/';
const triggerPrefix = 'trigger/';
const undeliveredPrefix = 'undelivered/';
const sessionPrefix = 'ended-session/';
const timeoutMs = 10_000;

/**
 * Opens the directory and locks it for this process. Throws a `queue_unusable` error if another daemon is
 * using it, if it is not writable, or if the file is corrupted or was written by a newer version of waybill.
 */
export async function openQueueStore(options: QueueStoreOptions): Promise<QueueStore> {
  const { directory } = options;
  const lock = await usable(directory, async () => {
    createRoot(resolve(directory), 0o700);
    const locked = await lockDirectory(directory);
    if (locked === null) throw queueInUse(directory);
    return locked;
  });
  try {
    const { file, values } = await usable(directory, () => openAlone(directory, lock));
    return storeOn(file, values, lock, options);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Reads the file and claims it for this process. Starts over if another process claims it first. */
async function openAlone(
  directory: string,
  lock: DirectoryLock,
): Promise<{ file: LmdbFile; values: Map<string, string> }> {
  const data = dataFile(directory);
  for (;;) {
    if (!existsSync(data)) await createLmdb(data);
    // Earlier versions left an empty file behind if they were killed while creating it.
    const values = statSync(data).size > 0 ? await readQueueFile(data) : new Map<string, string>();
    refuseNewer(data, values.get(versionKey));
    const owner = values.get(ownerKey);
    if (owner !== undefined && (await lock.isAlive(owner))) throw queueInUse(directory);
    const file = openLmdb(data);
    const before = owner === undefined ? undefined : frame(ownerKey, owner);
    const mine = frame(ownerKey, lock.name);
    const others = new Map([[versionKey, frame(versionKey, String(version))]]);
    try {
      if (file.claim(ownerKey, mine, (current) => current === before, others) === mine) {
        // The file itself is already on disk, but its directory entry may not be.
        await syncDirectories([directory, dirname(directory)]);
        return { file, values };
      }
    } catch (error) {
      await file.close();
      throw error;
    }
    await file.close();
  }
}

function storeOn(
  file: LmdbFile,
  values: ReadonlyMap<string, string>,
  lock: DirectoryLock,
  { staging, clock, log, onDropped, sync = syncStaged }: QueueStoreOptions,
): QueueStore {
  const writes = new GroupCommit({
    clock,
    timeoutMs,
    sync: (staged) => sync(staging, staged),
    commit: (entries) => file.commit(entries),
    onHealth: (failure) =>
      failure === null
        ? log.info({}, 'the queue is written again')
        : log.error({ err: failure }, 'the queue cannot be written'),
  });
  const ordinals = [...values.keys()].map((key) => Number(/^(?:run|event)\/(\d{16})$/.exec(key)?.[1] ?? 0));
  let last = Math.max(0, ...ordinals);
  /** Creates keys that sort in the order in which their entries were created, even when compared as text. */
  const newKey = (kind: 'run' | 'event'): string => `${kind}/${String(++last).padStart(16, '0')}`;
  const close = async (): Promise<void> => {
    const isWritten = await writes.close(timeoutMs);
    if (!isWritten) log.error({}, 'the queue could not be written before the end');
    await closeAll(
      // Closing the file waits for writes in progress. If the disk is unresponsive, that would take forever.
      () => (isWritten ? file.close() : undefined),
      () => lock.release(),
    );
  };
  let closing: Promise<void> | undefined;
  return {
    journal: journalOn(writes, values, { staging, newKey }),
    outbox: outboxOn(writes, values, newKey),
    undelivered: undeliveredOn(writes, values, onDropped),
    revokedSessions: revokedSessionsOn(writes, values, clock),
    check() {
      if (writes.failure !== null) throw writes.failure;
      file.requireInPlace();
    },
    close: () => (closing ??= close()),
  };
}

function journalOn(
  writes: GroupCommit,
  values: ReadonlyMap<string, string>,
  { staging, newKey }: { staging: string; newKey: (kind: 'run') => string },
): Journal {
  /** Keyed by run id. */
  const keys = new Map<string, string>();
  const runs: StoredRun[] = [];
  for (const [key, text] of values) {
    const run = key.startsWith('run/') ? parseStoredRun(text) : undefined;
    if (run === undefined) continue;
    keys.set(run.job.runId, key);
    runs.push(withStagedIn(run, staging));
  }
  const value = (key: string, run: StoredRun) => (): string => frame(key, storedRunText(run, staging));
  return {
    isDurable: true,
    runs,
    pauses: new Map(entriesIn<Pause>(values, pausePrefix)),
    triggers: entriesIn<StoredTrigger>(values, triggerPrefix).map(([, trigger]) => trigger),
    saveTrigger(pipelineId, trigger) {
      const entry: StoredTrigger = { pipelineId, trigger };
      setJson(writes, `${triggerPrefix}${trigger.kind}/${pipelineId}`, entry);
    },
    savePause: (pipelineId, pause) => setJson(writes, pausePrefix + pipelineId, pause),
    saveAccepted(run) {
      const key = newKey('run');
      keys.set(run.job.runId, key);
      // A rerun reuses the bundle of the earlier run, which is already on disk.
      const directory = run.job.rerunOf === undefined ? run.job.staged : null;
      return writes.add({ key, value: value(key, run), directory });
    },
    saveChange(run) {
      const key = keys.get(run.job.runId);
      if (key !== undefined) writes.set(key, value(key, run));
    },
    deleteRun({ job: { runId } }) {
      const key = keys.get(runId);
      if (key !== undefined) writes.set(key, null);
      keys.delete(runId);
    },
    flushed: () => writes.settled(),
  };
}

type StoredTrigger = Journal['triggers'][number];

function outboxOn(
  writes: GroupCommit,
  values: ReadonlyMap<string, string>,
  newKey: (kind: 'event') => string,
): Outbox {
  // If an event is given up, it is added to the undelivered events in the same turn. Both changes are
  // therefore written in the same transaction.
  const forget = (key: string) => (): void => writes.set(key, null);
  return {
    isDurable: true,
    open(take) {
      for (const [name, event] of entriesIn<OutboxEvent>(values, eventPrefix))
        take({ ...event, onEnd: forget(eventPrefix + name) });
    },
    store(traced, notifierIds, deliver) {
      for (const notifierId of notifierIds) {
        const key = newKey('event');
        const event: OutboxEvent = { notifierId, ...traced };
        setJson(writes, key, event);
        deliver(notifierId, forget(key));
      }
    },
  };
}

/**
 * Stores an undelivered event. This happens in the same turn in which the event is removed from the outbox,
 * so both changes are written in the same transaction.
 */
function undeliveredOn(
  writes: GroupCommit,
  values: ReadonlyMap<string, string>,
  onDropped: QueueStoreOptions['onDropped'],
): UndeliveredEvents {
  return undeliveredInMemory({
    restored: entriesIn<StoredUndelivered>(values, undeliveredPrefix).map(([, entry]) => entry),
    write: ({ notifierId, eventId }, entry) =>
      setJson(writes, `${undeliveredPrefix}${notifierId}/${eventId}`, entry),
    onDropped,
  });
}

function revokedSessionsOn(
  writes: GroupCommit,
  values: ReadonlyMap<string, string>,
  clock: Clock,
): RevokedSessions {
  const sessions = [...values].filter(([key]) => key.startsWith(sessionPrefix));
  return inProcessRevokedSessions({
    clock,
    restored: sessions.map(([key, expiresAt]) => [key.slice(sessionPrefix.length), new Date(expiresAt)]),
    write: (id, expiresAt) => {
      const key = sessionPrefix + id;
      if (expiresAt !== null)
        return writes.add({ key, value: () => frame(key, expiresAt.toISOString()), directory: null });
      writes.set(key, null);
      return Promise.resolve();
    },
  });
}

/** Returns the entries of earlier processes whose keys begin with this prefix, by the rest of their keys. */
function entriesIn<T>(values: ReadonlyMap<string, string>, prefix: string): [name: string, value: T][] {
  return [...values].flatMap(([key, text]): [string, T][] =>
    key.startsWith(prefix) ? [[key.slice(prefix.length), JSON.parse(text) as T]] : [],
  );
}

function setJson(writes: GroupCommit, key: string, value: object | null): void {
  writes.set(key, value === null ? null : () => frame(key, JSON.stringify(value)));
}

function refuseNewer(file: string, found: string | undefined): void {
  if (found === undefined || Number(found) <= version) return;
  throw new WaybillError(
    'queue_unusable',
    `the queue in ${file} is of version ${found}, and this waybill reads versions up to ${version}`,
    {
      hint: 'use the waybill that wrote it, or a newer one; let it publish the waiting runs before you go back',
    },
  );
}

async function usable<T>(directory: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (cause) {
    if (cause instanceof WaybillError && cause.code === 'queue_unusable') throw cause;
    const why = errorMessage(cause);
    throw new WaybillError('queue_unusable', `server.queue.directory ${directory} cannot be used: ${why}`, {
      cause,
      hint: 'name a directory on a local disk with free space that the daemon can write to',
    });
  }
}
