import type { FileEntryWithStats, SFTPWrapper } from 'ssh2';
import type { Storage } from '../storage.ts';
import { distrusted, isName, maxEmptyPages, maxNames } from '../untrusted.ts';
import { answerOf } from './errors.ts';

const endOfFile = 1;

type Done = (error?: Error | null, entries?: FileEntryWithStats[]) => void;

/**
 * Reads the entries of a directory, without `.` and `..`. ssh2 itself would collect as many as a server
 * sends. Fails with `storage_permanent` if there are more than `max`, or if a name could lead elsewhere.
 */
export function readDirectory(
  storage: Pick<Storage, 'label'>,
  sftp: Pick<SFTPWrapper, 'opendir' | 'readdir' | 'close'>,
  directory: string,
  done: Done,
  max = maxNames,
): void {
  const found: FileEntryWithStats[] = [];
  let emptyAnswers = 0;

  sftp.opendir(directory, (failure, handle) => {
    if (failure instanceof Error) {
      done(failure);
      return;
    }
    const finish = (error: Error | null): void => {
      sftp.close(handle, () => (error === null ? done(null, found) : done(error)));
    };
    const next = (): void => {
      sftp.readdir(handle, (error, entries) => {
        if (error instanceof Error) {
          finish(answerOf(error) === endOfFile ? null : error);
          return;
        }
        const fault = take(entries);
        if (fault === null) next();
        else finish(distrusted(storage, fault));
      });
    };
    next();
  });

  /** Returns why the server is not trusted; null if it is. */
  function take(entries: readonly FileEntryWithStats[]): string | null {
    // ssh2 leaves out `.` and `..`, which may be all that an answer holds.
    emptyAnswers = entries.length === 0 ? emptyAnswers + 1 : 0;
    if (emptyAnswers > maxEmptyPages) return 'it lists nothing without an end';
    for (const entry of entries) {
      if (entry.filename === '.' || entry.filename === '..') continue;
      if (!isName(entry.filename)) return `${JSON.stringify(entry.filename)} is not a name of a file`;
      found.push(entry);
    }
    return found.length > max ? `a directory has more than ${max} entries` : null;
  }
}
