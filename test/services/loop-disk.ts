import { execFileSync } from 'node:child_process';
import { existsSync, truncateSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';
import { ensureInstalled, MissingService } from './debian.ts';

export interface LoopDisk {
  /** Whatever writes to it waits until it thaws; a process that does cannot even be killed. */
  freeze: () => void;
  thaw: () => void;
}

/**
 * Mounts an ext4 of its own, in the file `image`, on a directory for as long as the test runs: a disk that
 * can stop to answer.
 */
export async function mountLoopDisk(
  t: Pick<Test, 'teardown'>,
  { image, directory, mebibytes }: { image: string; directory: string; mebibytes: number },
): Promise<LoopDisk> {
  await ensureInstalled('loopDisk');
  writeFileSync(image, '');
  truncateSync(image, mebibytes * 2 ** 20);
  run('mkfs.ext4', ['-q', '-F', image]);
  try {
    makeLoopDevices();
    run('mount', ['-o', 'loop', image, directory]);
  } catch (cause) {
    throw new MissingService('a disk in a file can be mounted by root only, with loop devices', { cause });
  }
  let isFrozen = false;
  const disk: LoopDisk = {
    freeze: () => {
      run('fsfreeze', ['--freeze', directory]);
      isFrozen = true;
    },
    thaw: () => {
      if (isFrozen) run('fsfreeze', ['--unfreeze', directory]);
      isFrozen = false;
    },
  };
  t.teardown(() => {
    disk.thaw();
    run('umount', ['--lazy', directory]);
  });
  return disk;
}

/** Where nobody has made them, as in a bare root directory. */
function makeLoopDevices(): void {
  if (!existsSync('/dev/loop-control')) run('mknod', ['/dev/loop-control', 'c', '10', '237']);
  for (let index = 0; index < 16; index += 1)
    if (!existsSync(`/dev/loop${index}`)) run('mknod', [`/dev/loop${index}`, 'b', '7', String(index)]);
}

function run(program: string, args: readonly string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
