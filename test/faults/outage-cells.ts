import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import { freePort } from '../services/free-port.ts';
import { makeDiskImage } from '../services/loop-disk.ts';
import { type MountNamespace, openMountNamespace } from '../services/mount-namespace.ts';
import { startOutageProxy } from '../services/outage-proxy.ts';
import { startRadosgw } from '../services/radosgw.ts';
import { type SftpServer, startSshd } from '../services/sshd.ts';

/**
 * The faults of each kind of storage, with the cause that a run reports.
 *
 * A local storage is a mounted file system. `disconnected`: its server has gone, and every call fails with
 * ENOTCONN. `unmounted`: its mount point is empty and read-only. `frozen`: calls that change it hang.
 * `dns`: connections are reset, and the name of the server is unknown.
 */
export const causes = {
  local: { disconnected: /ENOTCONN/, unmounted: /cannot be created: EROFS/, frozen: /no sign of life/ },
  sftp: {
    refuse: /refused/,
    reset: /reset|lost|closed/,
    silent: /no answer|did not answer|timed out/,
    'half open': /no answer|did not answer|timed out/,
    dns: /name/,
  },
  s3: {
    refuse: /refused/,
    reset: /lost/,
    503: /slow down/,
    silent: /no answer|timed out/,
    'half open': /no answer|timed out/,
    dns: /name/,
  },
} as const satisfies Record<string, Record<string, RegExp>>;

export type StorageKind = keyof typeof causes;

/** One storage of a daemon, and its outage. */
export interface Cell {
  /** The destination's settings in YAML. */
  destination: string;
  /**
   * Starts a run with `upload`, and begins the outage: in the middle of the transfer, or before it if the
   * storage is local. Resolves when the outage has begun.
   */
  begin<T>(upload: () => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

export interface Stage {
  namespace: MountNamespace;
  /** Environment variables that the destinations name. */
  env: Record<string, string>;
  openCell(id: string, storage: StorageKind, fault: string): Promise<Cell>;
}

/** The number of bytes of a transfer after which an outage begins. */
export const bytesBefore = 100_000;

/** Starts the servers of the cells. `root` is a directory for mounts and small files. */
export async function openStage(t: Test, root: string): Promise<Stage> {
  const [hosts, resolver] = [path.join(root, 'hosts'), path.join(root, 'resolv.conf')];
  writeFileSync(hosts, '127.0.0.1 localhost\n');
  // Without a name server, an unknown name fails immediately.
  writeFileSync(resolver, 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
  const namespace = await openMountNamespace(t, {
    what: 'a storage of the test',
    setUp: `mount --bind "${hosts}" /etc/hosts && mount --bind "${resolver}" /etc/resolv.conf`,
    atEnd: `for disk in "${root}"/disks/*; do fsfreeze --unfreeze "$disk" 2> /dev/null; done`,
  });
  const names = new Set(['localhost']);
  /** Keeps the inode, because that is the mounted one. */
  const writeNames = (): void =>
    writeFileSync(hosts, [...names].map((name) => `127.0.0.1 ${name}\n`).join(''));
  const sshd = await startSshd(t);
  const s3 = await startRadosgw(t);
  const bucket = await s3.newBucket();
  return {
    namespace,
    env: { KEY: s3.user.accessKeyId, SECRET: s3.user.secretAccessKey },
    async openCell(id, storage, fault) {
      if (storage === 'local') return localCell(namespace, path.join(root, 'disks', id), fault);
      const target = storage === 'sftp' ? sshd.port : s3.port;
      const proxy = await startOutageProxy(t, { target, port: await freePort() });
      const name = `${id}.example`;
      names.add(name);
      writeNames();
      const begin = (): void => {
        if (fault !== 'dns') {
          proxy.begin(fault as Parameters<typeof proxy.begin>[0]);
          return;
        }
        names.delete(name);
        writeNames();
        proxy.begin('reset');
        proxy.end();
      };
      return {
        destination:
          storage === 'sftp' ? sftpAt(sshd, name, proxy.port, root, id) : s3At(name, proxy.port, bucket, id),
        async begin(upload) {
          const begun = new Promise<void>((resolve) =>
            proxy.afterBytes(bytesBefore, () => {
              begin();
              resolve();
            }),
          );
          const accepted = await upload();
          await begun;
          return accepted;
        },
        async end() {
          if (fault !== 'dns') proxy.end();
          names.add(name);
          writeNames();
        },
      };
    },
  };
}

function sftpAt(sshd: SftpServer, host: string, port: number, root: string, id: string): string {
  const login = `user: ${sshd.user}, ssh_key_file: "${sshd.clientKeyFile}"`;
  const knownHosts = path.join(root, 'known-hosts', id);
  return `backend: sftp, host: ${host}, port: ${port}, path: "${sshd.root}/${id}", ${login}, known_hosts_file: "${knownHosts}"`;
}

function s3At(host: string, port: number, bucket: string, prefix: string): string {
  const login = 'access_key_id_env: KEY, secret_access_key_env: SECRET';
  return `backend: s3, endpoint: "http://${host}:${port}", path_style: true, bucket: ${bucket}, prefix: ${prefix}, ${login}`;
}

async function localCell({ run }: MountNamespace, disk: string, fault: string): Promise<Cell> {
  mkdirSync(disk, { recursive: true });
  // A FUSE file system whose server has closed the connection.
  const disconnect = `exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 test "${disk}"; exec 3>&-`;
  const [begin, end] = {
    disconnected: [disconnect, `umount "${disk}"`],
    unmounted: [`mount -t tmpfs -o ro test "${disk}"`, `umount "${disk}"`],
    frozen: [`fsfreeze --freeze "${disk}"`, `fsfreeze --unfreeze "${disk}"`],
  }[fault] as [string, string];
  if (fault === 'frozen') {
    await makeDiskImage(`${disk}.img`, 32);
    await run(`mount -o loop "${disk}.img" "${disk}"`);
  }
  return {
    destination: `backend: local, path: "${path.join(disk, 'public')}"`,
    async begin(upload) {
      await run(begin);
      return upload();
    },
    end: () => run(end),
  };
}
