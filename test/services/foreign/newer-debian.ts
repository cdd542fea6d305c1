import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { debianMirror } from '../apt.ts';
import { cached, madeOnce } from '../cache.ts';
import { ensureInstalled, MissingService } from '../debian.ts';
import { withOwnMounts } from '../mount-namespace.ts';

/** Programs from a newer Debian release than the tests run on. */
const release = 'forky';
const packages = [
  // For the locale C.UTF-8. Without it, Java supports only ASCII names.
  'libc-bin',
  ...['ceph-mon', 'ceph-osd', 'radosgw'],
  ...['swift-proxy', 'swift-account', 'swift-container', 'swift-object', 'memcached'],
  ...['python3-moto', 'python3-flask-cors'],
  ...['proftpd-core', 'proftpd-mod-crypto'],
  ...['libmina-sshd-java', 'default-jre-headless'],
];

/** A root directory with the files of those packages, without configuration. */
export interface NewerDebian {
  /**
   * The command prefix to run as root in it. `shared` is a local directory with the same path. Mounts belong
   * to that process and end with it.
   */
  through: (shared: string) => string[];
  /** The directory itself. */
  root: string;
}

/** Another list of packages has another directory. */
const place = cached(`${release}-${createHash('sha256').update(packages.join()).digest('hex').slice(0, 12)}`);

/**
 * The root directory, which is created once (a minute or two, 1 GB) and then stored in the user's cache.
 * Throws `MissingService` if that is not possible.
 */
export async function newerDebian(): Promise<NewerDebian> {
  await ensureInstalled('cleanRoot', 'namespaces');
  await ensureInstalled('mount');
  if (process.getuid?.() !== 0)
    throw new MissingService('only root may start programs in a root of their own');
  await madeOnce(place, make);
  const enter =
    'mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" && mkdir -p "$1$2" && mount --bind "$2" "$1$2" && root=$1 && shift 2 && exec chroot "$root" "$@"';
  return {
    root: place,
    through: (shared) => [...withOwnMounts(), 'sh', '-c', enter, 'sh', place, shared],
  };
}

/** Files of `/etc` with users and alternatives. */
const files = {
  passwd: 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
  group: 'root:x:0:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost\n',
};

async function make(root: string): Promise<void> {
  const options = [
    // Tolerates a clock ahead of the mirror's. Signatures are still checked.
    ...['--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Install-Recommends "false"'],
    ...['--variant=extract', '--mode=root', '--format=directory', `--include=${packages.join()}`],
  ];
  try {
    await promisify(execFile)('mmdebstrap', [...options, release, root, debianMirror()], {
      maxBuffer: 1 << 26,
      timeout: 10 * 60_000,
    });
  } catch (cause) {
    const [last] = /^E: .*$/m.exec(String((cause as { stderr?: unknown }).stderr ?? cause)) ?? [
      String(cause),
    ];
    throw new MissingService(`a root with packages of Debian ${release} cannot be made: ${last}`, { cause });
  }
  // The files that the packages' own scripts would create.
  for (const name of ['bin', 'sbin', 'lib', 'lib64'])
    if (!existsSync(path.join(root, name))) symlinkSync(`usr/${name}`, path.join(root, name));
  symlinkSync('dash', path.join(root, 'usr/bin/sh'));
  for (const name of ['proc', 'root', 'run', 'tmp']) mkdirSync(path.join(root, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(root, 'etc', name), text);
}
