import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { startDelayingProxy } from '../test/services/delaying-proxy.ts';
import { startSshd } from '../test/services/sshd.ts';
import { delayedLine } from './delayed-line.ts';
import { remote, remoteLarge, type RemotePlace } from './remote.ts';

/** Publishes from a local directory to SFTP, compared with rclone on the same server. */
export async function sftp(): Promise<boolean> {
  return onBoth((place) => remote(place, { large, small: 1.2, nothing: 2 }));
}

/** Publishes a large file, both to a local server and over a slow connection. */
export async function sftpLarge(): Promise<boolean> {
  return onBoth((place) => remoteLarge(place, large));
}

const large = { least: 1.2, against: 'fastest' } as const;

async function onBoth(near: (place: RemotePlace) => boolean): Promise<boolean> {
  return onSftp(async (place, far) => {
    const isNearFast = near(place);
    const line = await far();
    const isFarFast = await delayedLine(line.place, roundTripMs, line.env, large.least);
    return isNearFast && isFarFast;
  });
}

const roundTripMs = 50;

/** The same server over a slow connection, and the settings that make rclone use this connection. */
interface FarPlace {
  place: RemotePlace;
  env: Record<string, string>;
}

/** Starts an OpenSSH server on this machine and runs `work` with it. */
export async function onSftp(
  work: (place: RemotePlace, far: () => Promise<FarPlace>) => boolean | Promise<boolean>,
): Promise<boolean> {
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
    const placeAt = (port: number): RemotePlace => ({
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
    return await work(placeAt(port), async () => {
      const line = await startDelayingProxy(
        { teardown: (release) => void releases.push(release) },
        port,
        roundTripMs,
      );
      return { place: placeAt(line.port), env: { RCLONE_CONFIG_BENCH_PORT: String(line.port) } };
    });
  } finally {
    for (const release of releases.reverse()) await release();
  }
}
