import { mkdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';
import { incrementalSuite, marksBelow } from './suite.ts';

const server = await startSshd(t);
let places = 0;

incrementalSuite(t, 'SFTP', async (t) => {
  places += 1;
  const root = path.join(server.root, `place-${places}`);
  mkdirSync(root);
  const location = sftpLocationOf(server, root);
  const storage = await sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
  t.teardown(() => storage.close());
  return { storage, writtenMarks: async () => marksBelow(root) };
});
