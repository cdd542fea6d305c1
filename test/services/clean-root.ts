import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { memoryDirectory } from '../support/memory-directory.ts';
import { ensureInstalled, MissingService, pathOf } from './debian.ts';

const run = promisify(execFile);

/** A Debian that nobody has installed anything in, as a directory of this machine. */
export interface CleanRoot {
  /** Where its files are; what is mounted in it only its own processes see. */
  directory: string;
  /** What a command has to begin with to run in it, as root and with its processes alone to be seen. */
  through: string[];
}

/** What every Debian has that was not made for a container. */
const packages = ['ca-certificates', 'systemd'];
/** The bundle of certificates that this machine trusts, as the root has it too. */
export const certificatesOfRoot = '/etc/certificates-of-this-machine.crt';
const cache = path.resolve('node_modules/.cache/clean-roots');

/*
 * Mounts and processes are in namespaces of their own: when the keeper ends, and it does with the test at the
 * latest, the kernel ends and unmounts all of them.
 */
const keeper = `
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/run" || exit 1
echo ready
cat > /dev/null
`;

/**
 * Unpacks a new Debian of this release, which is made when it is first asked for and kept for other tests; it
 * is removed with the test. Only root may do that.
 */
export async function makeCleanRoot(t: Pick<Test, 'teardown'>, release: 'trixie'): Promise<CleanRoot> {
  if (process.getuid?.() !== 0) throw new MissingService('a clean root is for root alone to make');
  const archive = await archiveOfRoot(release);
  // In memory: dpkg waits for the disk after each file that it writes.
  const directory = mkdtempSync(path.join(memoryDirectory(), 'waybill-root-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }));
  await run('tar', ['-C', directory, '-xf', archive]);
  copyFileSync('/etc/resolv.conf', path.join(directory, 'etc/resolv.conf'));
  if (existsSync('/etc/ssl/certs/ca-certificates.crt'))
    copyFileSync('/etc/ssl/certs/ca-certificates.crt', path.join(directory, certificatesOfRoot));
  const unshare = ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', keeper, 'sh', directory];
  const child = spawn('unshare', unshare, { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.stdin.end();
    child.kill('SIGKILL');
    await ended;
  });
  await Promise.race([once(child.stdout, 'data'), ended.then(() => Promise.reject(new Error('no root')))]);
  const [first = ''] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
  return { directory, through: ['nsenter', '--target', first, '--mount', '--pid', 'chroot', directory] };
}

/** Its files, as an archive that is made when it is first asked for. */
export async function archiveOfRoot(release: 'trixie'): Promise<string> {
  await ensureInstalled('cleanRoot');
  const archive = path.join(cache, `${release}.tar`);
  if (existsSync(archive)) return archive;
  mkdirSync(cache, { recursive: true });
  const made = path.join(cache, `${release}.${process.pid}.tar`);
  const options = ['--variant=minbase', '--mode=root', `--include=${packages.join(',')}`];
  try {
    await run(pathOf('mmdebstrap') ?? '', [...options, release, made, mirror()], { maxBuffer: 64 << 20 });
    renameSync(made, archive);
  } catch (cause) {
    throw new MissingService(`Debian ${release} cannot be unpacked here`, { cause });
  } finally {
    rmSync(made, { force: true });
  }
  return archive;
}

/** Of Debian's packages, as apt on this machine uses it. */
function mirror(): string {
  for (const file of ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']) {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    const [, url] = /^(?:URIs:|deb(?: \[[^\]]*\])?) *(\S+)/m.exec(text) ?? [];
    if (url !== undefined) return url;
  }
  throw new MissingService('apt on this machine names no mirror of Debian');
}
