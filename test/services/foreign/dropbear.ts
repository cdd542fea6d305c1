import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync } from 'node:fs';
import { userInfo } from 'node:os';
import { promisify } from 'node:util';
import { ensureInstalled } from '../debian.ts';
import { freePort } from '../free-port.ts';
import { withOwnMounts } from '../mount-namespace.ts';
import { firstLineOf } from './foreign-s3.ts';
import { placeOf, type StartSftp } from './foreign-sftp.ts';
import { startServer } from './server-process.ts';

const run = promisify(execFile);

/** Dropbear, which runs OpenSSH's `sftp-server` for each session. */
export const startDropbear: StartSftp = async (t) => {
  await ensureInstalled('dropbear');
  await ensureInstalled('mount');
  const place = await placeOf(t, 'dropbear');
  const port = await freePort();
  const user = userInfo();
  await run('dropbearkey', ['-t', 'ed25519', '-f', place.at('dropbear_key')]);
  mkdirSync(place.at('.ssh'), { mode: 0o700 });
  copyFileSync(place.authorizedKeysFile, place.at('.ssh/authorized_keys'));
  // It reads authorized_keys only in the home directory of the user, so only this process sees ours there.
  const own = 'mkdir -p "$1/.ssh" && mount --bind "$2" "$1/.ssh" && shift 2 && exec "$@"';
  const before = [...withOwnMounts(), 'sh', '-c', own, 'sh', user.homedir];
  const options = ['-F', '-E', '-s', '-p', `127.0.0.1:${port}`, '-r', place.at('dropbear_key')];
  await startServer(t, [...before, place.at('.ssh'), 'dropbear', ...options], {
    port,
    directory: place.directory,
  });
  const [, version = ''] = /v(\d+\.\d+)/.exec(await firstLineOf(['dropbear', '-V'])) ?? [];
  const { root, clientKeyFile, knownHostsFile } = place;
  return {
    version,
    ...{ host: '127.0.0.1', port, user: user.username, root, seenAs: root, clientKeyFile, knownHostsFile },
    lacks: [],
    maxRequests: 64,
    strangerKeyFile: place.strangerKeyFile,
  };
};
