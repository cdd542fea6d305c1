import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { memoryDirectory } from '../support/memory-directory.ts';
import { debianMirror } from './apt.ts';
import { cached, madeOnce } from './cache.ts';
import { ensureInstalled, MissingService, pathOf } from './debian.ts';
import { withOwnMounts } from './mount-namespace.ts';

const run = promisify(execFile);

/** A new Debian root in a local directory. */
export interface CleanRoot {
  /** The path of its files. Only its own processes see its mounts. */
  directory: string;
  /** The command prefix that runs a command in it, as root and with only its processes visible. */
  through: string[];
}

/** Packages that every Debian outside of a container has. */
const packages = ['ca-certificates', 'systemd'];
/** The bundle of certificates that this machine trusts. The root gets it, too. */
export const certificatesOfRoot = '/etc/certificates-of-this-machine.crt';

/*
 * Mounts and processes are in separate namespaces. When the keeper ends, with the test at the latest, the
 * kernel ends and unmounts all of them.
 */
const keeper = `
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/run" || exit 1
echo ready
cat > /dev/null
`;

/**
 * Unpacks a new Debian of this release. It is created on first use and cached for other tests. The copy is
 * removed with the test. Requires root.
 */
export async function makeCleanRoot(t: Pick<Test, 'teardown'>, release: 'trixie'): Promise<CleanRoot> {
  if (process.getuid?.() !== 0) throw new MissingService('a clean root is for root alone to make');
  const archive = await archiveOfRoot(release);
  // In memory, because dpkg syncs each file that it writes.
  const directory = mkdtempSync(path.join(memoryDirectory(), 'waybill-root-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }));
  await run('tar', ['-C', directory, '-xf', archive]);
  copyFileSync('/etc/resolv.conf', path.join(directory, 'etc/resolv.conf'));
  if (existsSync('/etc/ssl/certs/ca-certificates.crt'))
    copyFileSync('/etc/ssl/certs/ca-certificates.crt', path.join(directory, certificatesOfRoot));
  const [unshare = '', ...options] = withOwnMounts('--pid', '--fork', '--kill-child');
  const child = spawn(unshare, [...options, 'sh', '-c', keeper, 'sh', directory], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.stdin.end();
    child.kill('SIGKILL');
    await ended;
  });
  await Promise.race([once(child.stdout, 'data'), ended.then(() => Promise.reject(new Error('no root')))]);
  const [first = ''] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
  return {
    directory,
    through: ['nsenter', '--target', first, '--mount', '--pid', '--root', 'chroot', directory],
  };
}

/** Its files as an archive, created on first use in half a minute. */
export async function archiveOfRoot(release: 'trixie'): Promise<string> {
  await ensureInstalled('cleanRoot', 'namespaces');
  return madeOnce(cached(`${release}.tar`), async (made) => {
    const options = [
      // Tolerates a clock ahead of the mirror's. Signatures are still checked.
      '--aptopt=Acquire::Check-Valid-Until "false"',
      ...['--variant=minbase', '--mode=root', '--format=tar', `--include=${packages.join(',')}`],
    ];
    try {
      const mmdebstrap = pathOf('mmdebstrap') ?? '';
      await run(mmdebstrap, [...options, release, made, debianMirror()], { maxBuffer: 64 << 20 });
    } catch (cause) {
      throw new MissingService(`Debian ${release} cannot be unpacked here`, { cause });
    }
  });
}
