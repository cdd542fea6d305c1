import { chmodSync, statfsSync } from 'node:fs';
import path from 'node:path';
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { WaybillError } from '../../core/lib/errors.ts';

/** An open file of entries, text by text. This process alone may have it open for writing. */
export interface LmdbFile {
  /** Resolves once all of it is durable; after a failure nothing of it is written. Null removes an entry. */
  commit(entries: ReadonlyMap<string, string | null>): Promise<void>;
  /**
   * Sets the entry to `value` if `mayReplace` says so of the one that there is; in one step, whatever other
   * processes do. Returns what it is then.
   */
  claim(key: string, value: string, mayReplace: (current: string | undefined) => boolean): string;
  close(): Promise<void>;
}

const privateMode = 0o600;

export function dataFile(directory: string): string {
  return path.join(directory, 'data.mdb');
}

/** Makes the file if it is missing; no other user may read it. Throws what LMDB throws. */
export function openLmdb(file: string): LmdbFile {
  const db = openFile(file, { readOnly: false });
  // Earlier versions made files that every user could read.
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
 * All entries of the file, in the order of their keys. Throws if they are not as many as the file says, and
 * what LMDB throws; a damaged file may end the process.
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
 * Not `overlappingSync`, which takes a transaction for committed before it is flushed: here it is committed
 * once it is durable, and a failed flush fails it. Not `eventTurnBatching`, whose own promise nobody holds:
 * where a transaction fails, its rejection would end the process.
 */
function openFile(file: string, { readOnly }: { readOnly: boolean }): RootDatabase<string, string> {
  const options: RootDatabaseOptionsWithPath & { permissionsMode: number } = {
    path: file,
    noSubdir: true,
    encoding: 'string',
    overlappingSync: false,
    eventTurnBatching: false,
    readOnly,
    // The types of lmdb lack it.
    permissionsMode: privateMode,
  };
  return open<string, string>(options);
}

/** LMDB's own error is in a promise beside the one that failed. */
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

// As Linux numbers them; LMDB passes them on as they are. A write that was cut short for lack of room is an
// I/O error to it.
const ioError = 5;
const noSpace = 28;
const overQuota = 122;

function hasNoRoom(file: string): boolean {
  const { bavail, bsize } = statfsSync(path.dirname(file));
  return bavail * bsize < 1024 * 1024;
}
