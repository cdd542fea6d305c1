import { mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';

/** The modes of created files on a server, whatever its umask. */

for (const umask of ['000', '077'])
  t.test(`files and directories get their modes on a server with umask ${umask}`, async (t) => {
    const server = await startSshd(t, { subsystem: `internal-sftp -u ${umask}` });
    const place = path.join(server.root, 'modes', umask);
    mkdirSync(path.dirname(place));
    const location = { ...sftpLocationOf(server, place), modes: { file: 0o640, directory: 0o750 } };
    const storage = await sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
    t.teardown(() => storage.close());
    const files = { 'a/b/small': 10, 'a/large': 300_000, empty: 0 };
    for (const [name, size] of Object.entries(files))
      await storage.write(listedKey(name), bytesBody('x'.repeat(size)), { mode: 'replace' });
    const modeOf = (name: string): string => (statSync(path.join(place, name)).mode & 0o7777).toString(8);
    t.same(['', 'a', 'a/b'].map(modeOf), ['750', '750', '750']);
    t.same(Object.keys(files).map(modeOf), ['640', '640', '640']);
  });
