import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/**
 * Where the tests keep what takes long to fetch and is the same for every clone: roots of Debian, releases of
 * Node.js, servers of npm. It may be removed at any time.
 */
export function cached(...names: readonly string[]): string {
  const home = process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache');
  return path.join(home, 'waybill-tests', ...names);
}

/**
 * Makes what is not there yet, as a file or a directory of the name that `make` is given, and then puts it in
 * its place. Of test files that need the same at once one makes it, and the others wait and find it. What was
 * half made when a test was killed goes with the next try: the lock ends with its process.
 */
export async function madeOnce(place: string, make: (made: string) => Promise<void>): Promise<string> {
  if (existsSync(place)) return place;
  mkdirSync(path.dirname(place), { recursive: true });
  const lock = spawn('flock', [`${place}.lock`, 'sh', '-c', 'echo locked; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(lock, 'close');
  await Promise.race([once(lock.stdout, 'data'), ended]);
  const made = `${place}.new`;
  const clear = (): void => rmSync(made, { recursive: true, force: true });
  try {
    if (existsSync(place)) return place;
    clear();
    await make(made);
    renameSync(made, place);
  } finally {
    clear();
    lock.stdin.end();
    await ended;
  }
  return place;
}
