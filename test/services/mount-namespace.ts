import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { ensureInstalled, MissingService } from './debian.ts';

/** Mounts that are visible only to processes started `through` it. */
export interface MountNamespace {
  /** Command prefix that starts a process in the namespace. */
  through: string[];
  /** The path at which this process sees a file of the namespace. */
  seen: (file: string) => string;
  /** Runs one line of shell script in the namespace. Throws if it fails. */
  run: (script: string) => Promise<void>;
}

/**
 * The root of a chroot may not be a mount point, and then cannot be made private. Enter a mount of it
 * instead.
 */
const enter = `
mount --make-rprivate / 2> /dev/null && exec "$@"
mount --rbind / /mnt && exec chroot /mnt sh -c 'mount --make-rprivate / && cd "$0" && exec "$@"' "$PWD" "$@"
`;

/**
 * Returns a command prefix that starts a process whose mounts no other process sees, and whose root is a
 * mount point.
 *
 * @param options further options of `unshare`
 */
export function withOwnMounts(...options: string[]): string[] {
  return ['unshare', '--mount', '--propagation', 'unchanged', ...options, 'sh', '-c', enter, 'sh'];
}

const keeper = `
eval "$1" || exit 1
echo ready
while read -r script; do
  eval "$script"
  echo $?
done
eval "$2"
`;

/**
 * Opens a mount namespace for the duration of the test. The kernel unmounts everything with its last
 * process. The shell that keeps it ends with its stdin, and so with the test at the latest.
 *
 * @param setUp a line of shell script for the first mounts; if it fails, throws a `MissingService` that
 * needs `what`
 * @param atEnd a line of shell script that runs even if the test was killed
 */
export async function openMountNamespace(
  t: Pick<Test, 'teardown'>,
  { what, setUp = ':', atEnd = ':' }: { what: string; setUp?: string; atEnd?: string },
): Promise<MountNamespace> {
  await ensureInstalled('mount');
  await ensureInstalled('namespaces');
  const [unshare, ...arguments_] = [...withOwnMounts(), 'sh', '-c', keeper, 'sh', setUp, atEnd];
  // Detached, because cleaning up the test's processes must not end the one that runs `atEnd`.
  const child = spawn(unshare, arguments_, { detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  if ((await lines.next()).value !== 'ready')
    throw new MissingService(`${what} can be mounted by root only: ${output.trim()}`);
  t.teardown(() => {
    child.stdin.end();
    return ended;
  });
  const own = `/proc/${child.pid}`;
  return {
    through: ['nsenter', `--mount=${own}/ns/mnt`, `--root=${own}/root`, `--wd=${process.cwd()}`, '--'],
    seen: (file) => path.join(own, 'root', file),
    async run(script) {
      child.stdin.write(`${script}\n`);
      if ((await lines.next()).value !== '0') throw new Error(`"${script}" failed: ${output.trim()}`);
    },
  };
}
