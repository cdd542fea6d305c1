import { chmodSync, existsSync, linkSync, rmSync, statfsSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { WaybillError } from '../../core/lib/errors.ts';
import { makeDurable } from '../../core/lib/sync.ts';

/** An open LMDB file whose entries are text. Only this process may have it open for writing. */
export interface LmdbFile {
  /**
   * Writes entries, where null deletes the entry. Resolves once they are all on disk. If it fails, none was
   * written. Also throws the error of `requireInPlace`.
   */
  commit(entries: ReadonlyMap<string, string | null>): Promise<void>;
  /**
   * Sets an entry to `value`, and writes `others`, provided that `mayReplace` agrees to replace the current
   * one. This is atomic, even across processes. Returns the value that the entry has afterwards. Blocks this
   * thread, so no `commit` of this process may be in progress: it needs this thread to end.
   */
  claim(
    key: string,
    value: string,
    mayReplace: (current: string | undefined) => boolean,
    others: ReadonlyMap<string, string>,
  ): string;
  /**
   * Throws `queue_unavailable` if the file is no longer under its name, because it or a directory above it
   * was moved, removed or covered by a mount. After a restart, nothing written to it would be found.
   */
  requireInPlace(): void;
  close(): Promise<void>;
}

const privateMode = 0o600;

export function dataFile(directory: string): string {
  return path.join(directory, 'data.mdb');
}

/**
 * Creates an empty file. It is created under a different name first and then moved into place, because LMDB
 * does not sync the headers of a new file, and a power failure could leave a corrupted one behind. Does
 * nothing if another process creates the file first. Throws LMDB and disk errors.
 */
export async function createLmdb(file: string): Promise<void> {
  const scratch = `${file}.new`;
  const remove = (): void => {
    for (const each of [scratch, `${scratch}-lock`]) rmSync(each, { force: true });
  };
  try {
    remove();
    await openFile(scratch, { readOnly: false }).close();
    await makeDurable([scratch]);
    linkSync(scratch, file);
    remove();
  } catch (error) {
    if (!existsSync(file)) throw error;
  }
}

/** Opens the file, and makes it readable only by its owner. Throws LMDB errors. */
export function openLmdb(file: string): LmdbFile {
  const db = openFile(file, { readOnly: false });
  // Earlier versions created files that other users were able to read.
  for (const each of [file, `${file}-lock`]) chmodSync(each, privateMode);
  const opened = statSync(file);
  const requireInPlace = (): void => {
    if (leadsTo(file, opened)) return;
    throw new WaybillError('queue_unavailable', 'the file of the queue was moved, removed or replaced', {
      hint: 'put data.mdb back into server.queue.directory, or restart the daemon',
    });
  };
  return {
    requireInPlace,
    async commit(entries) {
      requireInPlace();
      try {
        await db.childTransaction(() => {
          for (const [key, value] of entries)
            if (value === null) db.removeSync(key);
            else db.putSync(key, value);
        });
      } catch (error) {
        throw await causeOf(error, file);
      }
    },
    claim: (key, value, mayReplace, others) =>
      db.transactionSync(() => {
        const current = db.get(key);
        if (current !== undefined && !mayReplace(current)) return current;
        db.putSync(key, value);
        for (const [other, text] of others) db.putSync(other, text);
        return value;
      }),
    close: () => db.close(),
  };
}

function leadsTo(file: string, { ino, dev }: Stats): boolean {
  try {
    const found = statSync(file);
    return found.ino === ino && found.dev === dev;
  } catch {
    return false;
  }
}

/**
 * Reads all entries in key order. Throws LMDB errors, and also if the number of entries does not match the
 * count stored in the file. A corrupted file may crash the process.
 */
export function* readLmdb(file: string): Generator<[key: string, value: string]> {
  const db = openFile(file, { readOnly: true });
  const { entryCount } = db.getStats() as { entryCount: number };
  let count = 0;
  for (const { key, value } of db.getRange({ snapshot: false })) {
    count += 1;
    yield [key, value];
  }
  if (count !== entryCount) throw new Error(`${count} of ${entryCount} entries can be reached`);
}

/**
 * Opens the file with two of LMDB's options turned off. `overlappingSync` would report a transaction as
 * committed before it is flushed to disk, but we need to know when it is durable and whether the flush
 * failed. `eventTurnBatching` creates an internal promise without a handler, so a failed transaction would
 * end the process.
 */
function openFile(file: string, { readOnly }: { readOnly: boolean }): RootDatabase<string, string> {
  const options: RootDatabaseOptionsWithPath & { permissionsMode: number } = {
    path: file,
    noSubdir: true,
    encoding: 'string',
    overlappingSync: false,
    eventTurnBatching: false,
    readOnly,
    // This option is missing from lmdb's types.
    permissionsMode: privateMode,
  };
  return open<string, string>(options);
}

/** Finds the original LMDB error, which is in a separate promise attached to the error we get. */
async function causeOf(error: unknown, file: string): Promise<unknown> {
  const cause =
    error instanceof Error && 'commitError' in error
      ? await (error.commitError as Promise<never>).catch((real: unknown) => real)
      : error;
  const errno = cause instanceof Error && 'code' in cause ? Number(cause.code) : 0;
  return errno === noSpace || errno === overQuota || (errno === ioError && hasNoRoom(file))
    ? new WaybillError('insufficient_storage', 'the disk of the queue is full', {
        cause,
        hint: 'try again later',
      })
    : cause;
}

// Linux error numbers, which LMDB passes through. If the disk fills up in the middle of a write, LMDB reports
// an I/O error.
const ioError = 5;
const noSpace = 28;
const overQuota = 122;

function hasNoRoom(file: string): boolean {
  const { bavail, bsize } = statfsSync(path.dirname(file));
  return bavail * bsize < 1024 * 1024;
}
