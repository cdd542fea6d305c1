import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/**
 * The directory for downloads that all clones share: Debian roots, Node.js releases, npm servers. It may be
 * removed at any time.
 */
export function cached(...names: readonly string[]): string {
  const home = process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache');
  return path.join(home, 'waybill-tests', ...names);
}

/**
 * Creates a missing file or directory under the temporary name that `make` receives, then renames it. If
 * several test files need it at the same time, one makes it and the others wait. The next attempt removes a
 * killed test's half-made copy: the lock ends with its process.
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
