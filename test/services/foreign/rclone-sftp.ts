import { ensureInstalled } from '../debian.ts';
import { freePort } from '../free-port.ts';
import { firstLineOf } from './foreign-s3.ts';
import { placeOf, type StartSftp } from './foreign-sftp.ts';
import { startServer } from './server-process.ts';

/** `rclone serve sftp`, of a directory of this machine. */
export const startRcloneSftp: StartSftp = async (t) => {
  await ensureInstalled('rclone');
  const place = await placeOf(t, 'rclone');
  const port = await freePort();
  const options = ['--config', '', '--addr', `127.0.0.1:${port}`, '--vfs-cache-mode', 'writes'];
  const keys = ['--authorized-keys', place.authorizedKeysFile, '--key', place.at('host_key')];
  const cache = ['--cache-dir', place.at('cache')];
  await startServer(t, ['rclone', 'serve', 'sftp', place.root, ...options, ...keys, ...cache], {
    port,
    directory: place.directory,
  });
  const [, version = ''] = /v(\d+\.\d+)/.exec(await firstLineOf(['rclone', '--version'])) ?? [];
  const { root, clientKeyFile, knownHostsFile } = place;
  return {
    version,
    ...{ host: '127.0.0.1', port, user: 'publisher', root, seenAs: '/', clientKeyFile, knownHostsFile },
    // With more, files that are renamed consecutively get lost.
    lacks: [
      // It checks for the new name, and then renames.
      'exclusive creation succeeds once among twenty contenders',
      // It reports success without creating a link, so publishing releases is rejected.
      'a link is created, read, replaced and removed, and its target stays',
      'a link replaces only a link',
      'shows readers a complete target while a link is replaced',
    ],
    maxRequests: 1,
    strangerKeyFile: place.strangerKeyFile,
  };
};
