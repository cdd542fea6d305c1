import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { startSshd } from '../test/services/sshd.ts';
import { remote, type RemotePlace } from './remote.ts';

/** Local → SFTP, beside rclone on the same server. */
export async function sftp(): Promise<boolean> {
  return onSftp((place) => remote(place, { large: 1.0, small: 1.2, nothing: 2 }));
}

/** Runs `work` on a server of its own: OpenSSH on this machine. */
export async function onSftp(work: (place: RemotePlace) => boolean): Promise<boolean> {
  const releases: (() => unknown)[] = [];
  try {
    const server = await startSshd({ teardown: (release) => void releases.push(release) });
    const { host, port, user, root, clientKeyFile } = server;
    Object.assign(process.env, {
      RCLONE_CONFIG_BENCH_TYPE: 'sftp',
      RCLONE_CONFIG_BENCH_HOST: host,
      RCLONE_CONFIG_BENCH_PORT: String(port),
      RCLONE_CONFIG_BENCH_USER: user,
      RCLONE_CONFIG_BENCH_KEY_FILE: clientKeyFile,
    });
    return work({
      name: 'SFTP',
      destination: (directory) =>
        `backend: sftp, host: ${host}, port: ${port}, user: ${user}, path: "${root}/${directory}", ssh_key_file: "${clientKeyFile}", known_hosts_file: "${server.knownHostsFile}"`,
      rclone: (directory) => `bench:${root}/${directory}`,
      rclones: [
        { flags: [], isSlowPerFile: true },
        { flags: ['--transfers', '16', '--checkers', '16'], isSlowPerFile: true },
        { flags: ['--transfers', '16', '--checkers', '16', '--sftp-disable-hashcheck'] },
      ],
      clear: (directory) => {
        rmSync(path.join(root, directory), { recursive: true, force: true });
        mkdirSync(path.join(root, directory));
      },
    });
  } finally {
    for (const release of releases.reverse()) await release();
  }
}
