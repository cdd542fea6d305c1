import { systemClock } from '../../core/lib/clock.ts';
import { createLockedDirectory } from '../../core/lib/directory-lock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

/**
 * Makes sure that only one process of a machine opens an embedded database. A second process would corrupt
 * it, and the database does not prevent that itself. The lock is the directory `<directory>.lock`, because
 * the feeder replaces an empty database directory. Returns a function that releases the lock. Throws
 * `database_unavailable`.
 */
export async function lockDatabase(directory: string): Promise<() => Promise<void>> {
  const lock = `${directory.replace(/\/+$/, '')}.lock`;
  const release = await createLockedDirectory(lock, systemClock).catch((cause: unknown) => {
    throw new WaybillError('database_unavailable', `the lock ${lock} cannot be created`, {
      hint:
        errnoOf(cause) === 'EEXIST'
          ? `delete the file ${lock}`
          : 'use a database on a local disk; give the user that runs waybill write access to its parent directory',
      cause,
    });
  });
  if (release !== null) return release;
  throw new WaybillError('database_unavailable', `the embedded database ${directory} is open already`, {
    hint: `stop the other process that uses it; if there is none, delete ${lock}`,
  });
}
