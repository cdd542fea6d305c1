import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import { sftpStorage } from '../../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { retire, site, writeRelease } from '../../faults/release-world.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../services/sshd.ts';

const sshd = await startSshd(t);
const context = { clock: systemClock, log: silentLog };

const opening: Record<string, (root: string) => Promise<Storage>> = {
  local: async (root) => localStorage(root),
  SFTP: async (root) => sftpStorage(sftpLocationOf(sshd, root), { ...context, secrets: noSecrets }),
};

for (const [name, open] of Object.entries(opening))
  t.test(`${name}: sweeps the remains of a kill before or after a release existed`, async (t) => {
    const root = t.testdir();
    const storage = await open(root);
    t.teardown(() => storage.close());
    const complete = await writeRelease(storage, 1);
    const releases = path.join(root, site, 'releases');
    const begun = (id: string, ...below: string[]): string => {
      const directory = path.join(releases, id, ...below);
      mkdirSync(directory, { recursive: true });
      return directory;
    };
    begun('20261101T000000Z-00000001');
    begun('20261101T000000Z-00000002', '.publisher.tmp');
    const halfWritten = begun('20261101T000000Z-00000003', '.publisher.tmp');
    writeFileSync(path.join(halfWritten, 'write-1'), '{"pid":');
    const taken = begun(complete, '.publisher.tmp');
    writeFileSync(path.join(taken, 'stolen-1'), '{"pid":');
    const others = '20261101T000000Z-00000004';
    writeFileSync(path.join(begun(others), 'theirs.txt'), 'theirs');
    await retire(storage, 1);
    t.same(readdirSync(releases).sort(), [others, complete].sort());
    t.same(readdirSync(path.join(releases, others)), ['theirs.txt'], 'foreign files are unchanged');
    t.notOk(readdirSync(path.join(releases, complete)).includes('.publisher.tmp'));
    t.ok(readdirSync(path.join(releases, complete)).includes('.publisher.json'));
  });
