import { execFileSync } from 'node:child_process';
import { existsSync, truncateSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';
import { ensureInstalled } from './debian.ts';
import { type MountNamespace, openMountNamespace } from './mount-namespace.ts';

/** A separate disk, visible only to processes started `through` it. */
export interface LoopDisk extends Pick<MountNamespace, 'through' | 'seen'> {
  /** Every write waits until the disk thaws. A writing process cannot even be killed. */
  freeze: () => Promise<void>;
  thaw: () => Promise<void>;
  /** Fills the disk to the last byte. */
  fill: () => Promise<void>;
  clear: () => Promise<void>;
}

/** Mounts an ext4 file system in a file on a directory for as long as the test runs. */
export async function mountLoopDisk(
  t: Pick<Test, 'teardown'>,
  { directory, mebibytes }: { directory: string; mebibytes: number },
): Promise<LoopDisk> {
  const image = `${directory}.img`;
  await makeDiskImage(image, mebibytes);
  const { through, seen, run } = await openMountNamespace(t, {
    what: 'a disk in a file',
    setUp: `mount -o loop "${image}" "${directory}"`,
    // A disk that stayed frozen could never be thawed.
    atEnd: `fsfreeze --unfreeze "${directory}" 2> /dev/null; umount --lazy "${directory}"`,
  });
  const ballast = `"${directory}/ballast"`;
  return {
    through,
    seen,
    freeze: () => run(`fsfreeze --freeze "${directory}"`),
    thaw: () => run(`fsfreeze --unfreeze "${directory}"`),
    fill: () => run(`cat /dev/zero > ${ballast} 2> /dev/null; sync -f "${directory}"`),
    clear: () => run(`rm ${ballast}`),
  };
}

/** Creates an ext4 file system in a file, and the loop devices to mount it. */
export async function makeDiskImage(image: string, mebibytes: number): Promise<void> {
  await ensureInstalled('loopDisk');
  writeFileSync(image, '');
  truncateSync(image, mebibytes * 2 ** 20);
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image], { stdio: ['ignore', 'ignore', 'pipe'] });
  makeLoopDevices();
}

/** Missing in a minimal root directory. */
function makeLoopDevices(): void {
  const nodes = [['/dev/loop-control', 'c', 10, 237] as const].concat(
    Array.from({ length: 16 }, (_, index) => [`/dev/loop${index}`, 'b', 7, index] as never),
  );
  for (const [node, kind, major, minor] of nodes)
    if (!existsSync(node))
      try {
        execFileSync('mknod', [node, kind, String(major), String(minor)], { stdio: 'ignore' });
      } catch {
        // Mounting reports the missing part.
      }
}
