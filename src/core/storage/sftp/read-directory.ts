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
    if (failure instanceof Error) return void done(failure);
    const finish = (error: Error | null): void =>
      sftp.close(handle, () => (error === null ? done(null, found) : done(error)));
    const next = (): void =>
      sftp.readdir(handle, (error, entries) => {
        if (error instanceof Error) return void finish(answerOf(error) === endOfFile ? null : error);
        // ssh2 leaves out `.` and `..`, which may be all that an answer holds.
        emptyAnswers = entries.length === 0 ? emptyAnswers + 1 : 0;
        if (emptyAnswers > maxEmptyPages)
          return void finish(distrusted(storage, 'it lists nothing without an end'));
        for (const entry of entries) {
          if (entry.filename === '.' || entry.filename === '..') continue;
          if (!isName(entry.filename))
            return void finish(distrusted(storage, `${JSON.stringify(entry.filename)} is no name of a file`));
          found.push(entry);
        }
        if (found.length > max)
          return void finish(distrusted(storage, `a directory has more than ${max} entries`));
        next();
      });
    next();
  });
}
