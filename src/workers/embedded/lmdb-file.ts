import { chmodSync, existsSync, linkSync, rmSync, statfsSync } from 'node:fs';
import path from 'node:path';
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { WaybillError } from '../../core/lib/errors.ts';
import { makeDurable } from '../../core/lib/sync.ts';

/** An open file of text entries. Only this process may have it open for writing. */
export interface LmdbFile {
  /**
   * Resolves once all entries are durable. If it fails, no entry was written. A null value removes the entry.
   */
  commit(entries: ReadonlyMap<string, string | null>): Promise<void>;
  /**
   * Sets the entry to `value` if `mayReplace` accepts its current value. Atomic across processes. Returns the
   * resulting value.
   */
  claim(key: string, value: string, mayReplace: (current: string | undefined) => boolean): string;
  close(): Promise<void>;
}

const privateMode = 0o600;

export function dataFile(directory: string): string {
  return path.join(directory, 'data.mdb');
}

/**
 * Creates an empty file in one step. LMDB writes a new file's headers without syncing them, so a power
 * failure could leave a damaged file. Does nothing if another process creates the file first. Throws LMDB and
 * disk errors.
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

/** Opens the file so that only its owner can read it. Throws LMDB errors. */
export function openLmdb(file: string): LmdbFile {
  const db = openFile(file, { readOnly: false });
  // Earlier versions created files that other users could read.
  for (const each of [file, `${file}-lock`]) chmodSync(each, privateMode);
  return {
    async commit(entries) {
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
    claim: (key, value, mayReplace) =>
      db.transactionSync(() => {
        const current = db.get(key);
        if (current !== undefined && !mayReplace(current)) return current;
        db.putSync(key, value);
        return value;
      }),
    close: () => db.close(),
  };
}

/**
 * Reads all entries of the file in key order. Throws if their number differs from the file's own count. Also
 * throws LMDB errors. A damaged file may crash the process.
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
 * `overlappingSync` is off, because it reports a commit before the flush. Here a commit is durable, and a
 * failed flush fails it. `eventTurnBatching` is off, because it creates an internal promise without a
 * handler, whose rejection would end the process if a transaction failed.
 */
function openFile(file: string, { readOnly }: { readOnly: boolean }): RootDatabase<string, string> {
  const options: RootDatabaseOptionsWithPath & { permissionsMode: number } = {
    path: file,
    noSubdir: true,
    encoding: 'string',
    overlappingSync: false,
    eventTurnBatching: false,
    readOnly,
    // Missing from lmdb's types.
    permissionsMode: privateMode,
  };
  return open<string, string>(options);
}

/** LMDB's original error is in a separate promise attached to the reported one. */
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

// Linux error numbers, which LMDB passes through. LMDB reports a write cut short by a full disk as an I/O
// error.
const ioError = 5;
const noSpace = 28;
const overQuota = 122;

function hasNoRoom(file: string): boolean {
  const { bavail, bsize } = statfsSync(path.dirname(file));
  return bavail * bsize < 1024 * 1024;
}
