import { spawn } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { existsSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { ensureInstalled, MissingService } from './debian.ts';

/** A disk of its own, which only processes see that are started `through` it. */
export interface LoopDisk {
  /** What a command has to begin with to see the disk. */
  through: string[];
  /** Where this process sees a directory or file of the disk. */
  seen: (file: string) => string;
  /** Whatever writes to it waits until it thaws; a process that does cannot even be killed. */
  freeze: () => Promise<void>;
  thaw: () => Promise<void>;
  /** Leaves no byte, and makes room again. */
  fill: () => Promise<void>;
  clear: () => Promise<void>;
}

/*
 * What holds the mount, in a namespace of its own: at its end the kernel unmounts, whatever else happens. It
 * ends when its standard input does, which is with the test at the latest, however that ends. A disk that is
 * frozen then could never be thawed.
 */
const keeper = `
mount -o loop "$1" "$2" || exit 1
echo ready
while read -r order; do
  case $order in
    freeze) fsfreeze --freeze "$2" ;;
    thaw) fsfreeze --unfreeze "$2" ;;
    fill) cat /dev/zero > "$2/ballast" 2> /dev/null; sync -f "$2" ;;
    clear) rm "$2/ballast" ;;
  esac
  echo done
done
fsfreeze --unfreeze "$2" 2> /dev/null
umount --lazy "$2"
`;

/**
 * Mounts an ext4 of its own on a directory for as long as the test runs: a disk that can stop to answer, and
 * can be full.
 */
export async function mountLoopDisk(
  t: Pick<Test, 'teardown'>,
  { directory, mebibytes }: { directory: string; mebibytes: number },
): Promise<LoopDisk> {
  await ensureInstalled('mount');
  await ensureInstalled('loopDisk', 'namespaces');
  const image = `${directory}.img`;
  writeFileSync(image, '');
  truncateSync(image, mebibytes * 2 ** 20);
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image], { stdio: ['ignore', 'ignore', 'pipe'] });
  makeLoopDevices();
  const child = spawn(
    'unshare',
    ['--mount', '--propagation', 'private', 'sh', '-c', keeper, 'sh', image, directory],
    {
      // A cleanup of the test's processes must not end the one that thaws the disk.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  let told = '';
  child.stderr.on('data', (chunk: Buffer) => (told += chunk.toString()));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  if ((await lines.next()).value !== 'ready')
    throw new MissingService(
      `a disk in a file can be mounted by root only, with loop devices: ${told.trim()}`,
    );
  const order = async (what: string): Promise<void> => {
    child.stdin.write(`${what}\n`);
    if ((await lines.next()).value !== 'done') throw new Error(`the disk cannot ${what}: ${told.trim()}`);
  };
  t.teardown(() => {
    child.stdin.end();
    return ended;
  });
  const own = `/proc/${child.pid}`;
  return {
    through: ['nsenter', `--mount=${own}/ns/mnt`, `--root=${own}/root`, `--wd=${process.cwd()}`, '--'],
    seen: (file) => path.join(own, 'root', file),
    freeze: () => order('freeze'),
    thaw: () => order('thaw'),
    fill: () => order('fill'),
    clear: () => order('clear'),
  };
}

/** Missing in a bare root directory. */
function makeLoopDevices(): void {
  const nodes = [['/dev/loop-control', 'c', 10, 237] as const].concat(
    Array.from({ length: 16 }, (_, index) => [`/dev/loop${index}`, 'b', 7, index] as never),
  );
  for (const [node, kind, major, minor] of nodes)
    if (!existsSync(node))
      try {
        execFileSync('mknod', [node, kind, String(major), String(minor)], { stdio: 'ignore' });
      } catch {
        // Mounting says what is missing.
      }
}
