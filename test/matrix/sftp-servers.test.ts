import { mkdirSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { storageOpener } from '../../src/core/storage/open-storage.ts';
import type { SftpLocation } from '../../src/core/storage/sftp/sftp-location.ts';
import { storageContract } from '../contract/storage.ts';
import { startDropbear } from '../services/foreign/dropbear.ts';
import type { ForeignSftp } from '../services/foreign/foreign-sftp.ts';
import { startMinaSshd } from '../services/foreign/mina-sshd.ts';
import { startProftpd } from '../services/foreign/proftpd.ts';
import { startRcloneSftp } from '../services/foreign/rclone-sftp.ts';
import { noSecrets } from '../services/sshd.ts';
import { recordMatrix } from '../support/matrix.ts';
import { cells, publishThere, startAll } from './foreign-servers.ts';

/** SFTP servers of other projects: their features, the detection of those features, and publishing. */

let places = 0;
const policy = { retries: 20, baseMs: 50, capMs: 500 };
const openStorage = storageOpener(
  { clock: systemClock, log: silentLog, secrets: noSecrets },
  { opening: policy, calls: policy },
);

const made = startAll(t, 'sftp-servers', {
  'Apache MINA SSHD': startMinaSshd,
  'Dropbear (sftp-server)': startDropbear,
  'ProFTPD (mod_sftp)': startProftpd,
  'rclone serve sftp': startRcloneSftp,
});

for (const [name, start] of Object.entries(made))
  t.test(name, async (t) => {
    const server = await start();
    mkdirSync(path.join(server.root, 'live/releases'), { recursive: true });
    const { host, port, user, clientKeyFile, strangerKeyFile, knownHostsFile } = server;
    const at = (key: string): string =>
      `backend: sftp, host: ${host}, port: ${port}, user: ${user}, path: "${path.posix.join(server.seenAs, 'live')}", ssh_key_file: "${key}", known_hosts_file: "${knownHostsFile}", max_requests: ${server.maxRequests}`;
    const found = await publishThere(t, {
      settings: at(clientKeyFile),
      env: {},
      stranger: { settings: at(strangerKeyFile), env: {} },
    });
    await t.test('the storage contract', async (t) => contract(t, name, server));
    recordMatrix(t, 'sftp-servers', {
      subject: name,
      version: server.version,
      found: cells(t, found, server.lacks),
    });
  });

async function contract(t: Test, name: string, server: ForeignSftp): Promise<void> {
  await storageContract(
    t,
    async () => {
      places += 1;
      const name = `contract-${places}`;
      mkdirSync(path.join(server.root, name));
      const location: SftpLocation = {
        backend: 'sftp',
        host: server.host,
        port: server.port,
        user: server.user,
        path: path.posix.join(server.seenAs, name),
        sshKeyFile: server.clientKeyFile,
        sshKeyPassphraseEnv: null,
        sshAgentSocket: null,
        hostKeyPolicy: 'accept-new',
        knownHostsFile: server.knownHostsFile,
        maxRequests: server.maxRequests,
        maxConnections: 4,
      };
      return {
        // Some servers limit the number of clients that have not logged in yet.
        open: async () => openStorage(location, { readOnly: false }),
        page: 90,
      };
    },
    { variantOf: name, lacks: server.lacks },
  );
}
