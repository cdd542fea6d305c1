import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { probeStorage, rightNames } from '../../../../src/core/maintain/probe.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import { leftovers, publishTo, snapshot, stateOf, testClock } from '../../../faults/world.ts';
import { startPlainSftpServer } from '../../../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';

const servers = {
  OpenSSH: await startSshd(t),
  'a server that answers with codes of version 6': await startPlainSftpServer(t, { laterCodes: true }),
};
const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
let places = 0;

for (const [name, server] of Object.entries(servers)) {
  const newPlace = (): string => {
    places += 1;
    const place = path.join(server.root, `place-${places}`);
    mkdirSync(place);
    return place;
  };

  for (const [what, lay, root] of [
    ['a dangling link', (here: string) => symlinkSync('/nowhere/at/all', here), ''],
    ['a directory below a dangling link', (here: string) => symlinkSync('gone', here), 'deep/below'],
    ['a file', (here: string) => writeFileSync(here, ''), ''],
    ['a file above', (here: string) => writeFileSync(here, ''), 'deep/below'],
  ] as const)
    t.test(`${name}: names ${what} in place of the root, also in a dry run`, async (t) => {
      const here = path.join(newPlace(), 'here');
      const location = sftpLocationOf(server, path.join(here, root));
      const opened = await sftpStorage(location, options);
      t.teardown(() => opened.close());
      lay(here);
      const lease = publishTo(opened, { files: { 'a.txt': 'a' } });
      // The disk of a dangling link may be unmounted.
      const code = what.includes('link') ? 'storage_unavailable' : 'storage_permanent';
      const error = { code, message: `"${here}"`, retryable: what.includes('link') };
      t.match(await lease, { action: 'error', error });
      for (const more of [{}, { readOnly: true, dryRun: true }])
        await named(t, sftpStorage(location, { ...options, ...more }), here);
    });

  t.test(`${name}: a publication releases its lease, and the next ones proceed`, async (t) => {
    const storage = await sftpStorage(sftpLocationOf(server, path.join(newPlace(), 'web')), options);
    t.teardown(() => storage.close());
    const clock = testClock();
    const first = await publishTo(storage, { files: { 'a.txt': 'a1', 'dir/b.txt': 'b1' } }, clock);
    t.match(first, { action: 'publish_new', error: null });
    t.same(leftovers(await snapshot(storage)), []);
    const files = { 'a.txt': 'a2', 'new/c.txt': 'c' };
    const second = await publishTo(storage, { files, workflow: 'replacement' }, clock);
    t.match(second, { action: 'replace_catalog', error: null });
    t.match(await publishTo(storage, { files, workflow: 'replacement' }, clock), { action: 'skip_same' });
    await storage.write(key('bundle/taken'), bytesBody('x'), { mode: 'replace' });
    const forced = { files: { taken: 't' }, force: true };
    t.match(await publishTo(storage, forced, clock), { action: 'force_replace', error: null });
    t.same([...(await snapshot(storage)).keys()].sort(), ['bundle/.publisher.json', 'bundle/taken']);
    t.equal((await stateOf(storage)).kind, 'valid');
    t.equal(clock.monotonic(), 0, 'did not wait');
  });

  t.test(`${name}: the probe makes the calls of a publication, and leaves no files`, async (t) => {
    const place = newPlace();
    const storage = await sftpStorage(sftpLocationOf(server, place), options);
    t.teardown(() => storage.close());
    const { rights } = await probeStorage(storage, systemClock, { write: true });
    for (const right of rightNames) t.match(rights[right], { answer: 'yes', error: null }, right);
    t.same(readdirSync(place), []);
  });
}

async function named(t: Test, work: Promise<unknown>, component: string): Promise<void> {
  await t.rejects(work, {
    code: /^storage_(?:permanent|unavailable)$/,
    message: `"${component}"`,
    hint: /create or mount that directory|move that file away/,
  });
}
