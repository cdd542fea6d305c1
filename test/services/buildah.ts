import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { memoryDirectory } from '../support/memory-directory.ts';
import { archiveOfRoot, certificatesOfRoot } from './clean-root.ts';
import { ensureInstalled, MissingService, pathOf } from './debian.ts';
import { withOwnMounts } from './mount-namespace.ts';
import { nodeProgram } from './node-releases.ts';

const run = promisify(execFile);

/** Debian's image builder, with a separate store that is removed with the test. */
export type Buildah = (...args: string[]) => Promise<string>;

export async function startBuildah(t: Pick<Test, 'teardown'>): Promise<Buildah> {
  await ensureInstalled('buildah');
  if (process.getuid?.() !== 0) throw new MissingService('images are built here by root alone');
  const store = mkdtempSync(path.join(memoryDirectory(), 'waybill-images-'));
  const where = ['--root', path.join(store, 'root'), '--runroot', path.join(store, 'run')];
  const buildah: Buildah = async (...args) => {
    const options = { maxBuffer: 64 << 20, env: { ...process.env, BUILDAH_ISOLATION: 'chroot' } };
    const command = [pathOf('buildah') ?? '', ...where, ...args];
    // The test itself must see its mounts.
    const isMount = args[0] === 'mount' || args[0] === 'umount';
    const [program = '', ...others] = isMount ? command : [...withOwnMounts(), ...command];
    const { stdout } = await run(program, others, options);
    return stdout.trim();
  };
  t.teardown(async () => {
    await buildah('umount', '--all').catch(() => undefined);
    await buildah('rm', '--all').catch(() => undefined);
    // The store is a separate mount point while it is used.
    for (const mounted of [path.join(store, 'root/overlay'), path.join(store, 'root')])
      await run('umount', [mounted]).catch(() => undefined);
    rmSync(store, { recursive: true, force: true, maxRetries: 5 });
  });
  return buildah;
}

/**
 * An image like those of Node.js, built from Debian and npm packages: a Debian with this release, npm, and
 * the user `node` with the id 1000. Image registries are not reachable from every network.
 */
export async function makeNodeImage(
  t: Pick<Test, 'teardown'>,
  buildah: Buildah,
  { name, release }: { name: string; release: string },
): Promise<void> {
  const files = mkdtempSync(path.join(tmpdir(), 'waybill-base-'));
  t.teardown(() => rmSync(files, { recursive: true, force: true }));
  const inFiles = (file: string): string => {
    mkdirSync(path.dirname(path.join(files, file)), { recursive: true });
    return path.join(files, file);
  };
  cpSync(await nodeProgram(release), inFiles('usr/local/bin/node'));
  const { stdout: npm } = await run('npm', ['root', '--global']);
  cpSync(realpathSync(path.join(npm.trim(), 'npm')), inFiles('usr/local/lib/node_modules/npm'), {
    recursive: true,
  });
  const { stdout: registry } = await run('npm', ['config', 'get', 'registry']);
  cpSync('/etc/ssl/certs/ca-certificates.crt', inFiles(certificatesOfRoot));
  writeFileSync(inFiles('usr/local/etc/npmrc'), `registry=${registry}\ncafile=${certificatesOfRoot}\n`);
  const base = await buildah('from', 'scratch');
  await buildah('add', base, await archiveOfRoot('trixie'), '/');
  await buildah('copy', base, files, '/');
  const npmCli = '/usr/local/lib/node_modules/npm/bin/npm-cli.js';
  await buildah('run', base, '--', 'ln', '-s', npmCli, '/usr/local/bin/npm');
  await buildah('run', base, '--', 'useradd', '--uid', '1000', '--create-home', 'node');
  await buildah('config', '--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', base);
  await buildah('commit', '--quiet', base, name);
  await buildah('rm', base);
}
