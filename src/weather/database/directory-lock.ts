import { open, readFile, unlink } from 'node:fs/promises';
import { WaybillError } from '../../core/lib/errors.ts';

const held = new Set<string>();

/**
 * Makes sure that only one process opens an embedded database. A second process would corrupt it, and the
 * database does not prevent that itself. The lock is a file `<directory>.lock` with the id of the process
 * that holds it. If that process no longer exists, the lock is taken over. Returns a function that releases
 * the lock.
 */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const file = `${directory.replace(/\/+$/, '')}.lock`;
  for (let attempt = 0; attempt < 3; attempt++) {
    if (await created(file)) {
      held.add(file);
      return async () => {
        held.delete(file);
        await unlink(file).catch(() => undefined);
      };
    }
    const holder = Number(await readFile(file, 'utf8').catch(() => '0'));
    if (held.has(file) || (holder !== process.pid && isAlive(holder))) throw inUse(directory, file, holder);
    await unlink(file).catch(() => undefined);
  }
  throw inUse(directory, file, 0);
}

async function created(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'wx', 0o600);
    await handle.writeFile(String(process.pid));
    await handle.close();
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw new WaybillError('database_unavailable', `the lock ${file} cannot be created`, {
      hint: 'give the user that runs waybill write access to the parent directory of the database',
      cause: error,
    });
  }
}

function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function inUse(directory: string, file: string, holder: number): WaybillError {
  return new WaybillError(
    'database_unavailable',
    `the embedded database ${directory} is open already${holder > 0 ? `, in process ${holder}` : ''}`,
    { hint: `stop that process; if none uses it, delete ${file}` },
  );
}
