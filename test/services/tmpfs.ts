import { execFileSync } from 'node:child_process';
import type { Test } from 'tap';
import { ensureInstalled, MissingService } from './debian.ts';

/** Mounts an in-memory file system of that size, e.g. `256k`, on a directory for the duration of the test. */
export async function mountTmpfs(t: Pick<Test, 'teardown'>, directory: string, size: string): Promise<void> {
  await ensureInstalled('mount');
  try {
    const args = ['-t', 'tmpfs', '-o', `size=${size},mode=755`, 'waybill-test', directory];
    execFileSync('mount', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (cause) {
    throw new MissingService('a small file system can be mounted by root only, with CAP_SYS_ADMIN', {
      cause,
    });
  }
  t.teardown(() => execFileSync('umount', ['--lazy', directory]));
}
