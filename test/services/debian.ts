import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Makes sure that programs are on this machine: where one is missing, the Debian packages are installed. */
export async function requirePrograms(
  programs: readonly string[],
  packages: readonly string[],
): Promise<void> {
  if (!(await areThere(programs)))
    await installPackages(packages, `command -v ${programs.join(' >/dev/null && command -v ')} >/dev/null`);
}

/**
 * Installs Debian packages, unless `check`, a shell command, says that somebody did meanwhile: test files run
 * side by side and apt serves one at a time, so they wait for each other. Throws, naming the packages, where
 * that is not possible.
 */
export async function installPackages(packages: readonly string[], check: string): Promise<void> {
  const names = packages.join(' ');
  const install = `${check} && exit 0\napt-get update -qq\napt-get install -y -qq --no-install-recommends ${names}`;
  try {
    await run('flock', [path.join(tmpdir(), 'waybill-test-packages.lock'), 'sh', '-ec', install], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 << 20,
    });
  } catch (cause) {
    throw new Error(`These tests need the Debian packages ${names}, which could not be installed here.`, {
      cause,
    });
  }
}

async function areThere(programs: readonly string[]): Promise<boolean> {
  const found = await Promise.all(programs.map(async (name) => pathOf(name)));
  return found.every((place) => place !== undefined);
}

/**
 * Where a program is; undefined where it is not. The directories of system programs count, whatever the
 * caller's PATH.
 */
export async function pathOf(program: string): Promise<string | undefined> {
  const PATH = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`;
  return run('which', [program], { env: { ...process.env, PATH } }).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}
