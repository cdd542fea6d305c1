import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Makes sure that programs are on this machine: where one is missing, the Debian packages are installed. Test files run side by side and apt serves one
 * at a time, so they wait for each other. Throws, naming the packages, where that is not possible.
 */
export async function requirePrograms(
  programs: readonly string[],
  packages: readonly string[],
): Promise<void> {
  if (await areThere(programs)) return;
  const install = [
    `command -v ${programs.join(' >/dev/null && command -v ')} >/dev/null && exit 0`,
    'apt-get update -qq',
    `apt-get install -y -qq --no-install-recommends ${packages.join(' ')}`,
  ].join('\n');
  try {
    await run('flock', [path.join(tmpdir(), 'waybill-test-packages.lock'), 'sh', '-ec', install], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 << 20,
    });
  } catch (cause) {
    throw new Error(
      `These tests need ${programs.join(', ')}; install the packages ${packages.join(', ')}, which apt-get here could not.`,
      { cause },
    );
  }
}

async function areThere(programs: readonly string[]): Promise<boolean> {
  const found = await Promise.all(programs.map(async (name) => pathOf(name)));
  return found.every((place) => place !== undefined);
}

/** Where a program is; undefined where it is not. The directories of system programs count, whatever the caller's PATH. */
export async function pathOf(program: string): Promise<string | undefined> {
  const PATH = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`;
  return run('which', [program], { env: { ...process.env, PATH } }).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}
