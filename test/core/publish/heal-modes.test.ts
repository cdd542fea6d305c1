import { chmodSync, linkSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { FixedModes } from '../../../src/core/storage/capabilities.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import { sftpStorage } from '../../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../services/sshd.ts';
import { Stand } from './stand.ts';

/** Modes that another program changed after a publication: the next run fixes them without writing files. */

interface Published {
  stand: Stand;
  root: string;
  /** The modes of these entries, in octal digits. */
  modesOf: (names: readonly string[]) => string[];
}

const entries = ['one', 'one/a', 'one/a/page.html', 'one/map.json', 'one/.publisher.json'];

async function published(t: Test, root: string, storage: Storage): Promise<Published> {
  const stand = new Stand();
  stand.web = storage;
  t.teardown(() => storage.close());
  await stand.add('one', { 'a/page.html': '<p>page</p>', 'map.json': '{}' });
  t.match(await stand.run(), {
    destinations: [{ actions: [{ action: 'publish_new' }], warnings: { length: 0 } }],
  });
  const modesOf: Published['modesOf'] = (names) =>
    names.map((name) => (statSync(path.join(root, name)).mode & 0o7777).toString(8));
  return { stand, root, modesOf };
}

async function locally(t: Test): Promise<Published> {
  const root = t.testdir();
  return published(t, root, await localStorage(root));
}

async function overSftp(t: Test): Promise<Published> {
  const server = await startSshd(t);
  const root = path.join(server.root, 'modes');
  const location = { ...sftpLocationOf(server, root), modes: { file: 0o644, directory: 0o755 } };
  const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
  return published(t, root, await sftpStorage(location, options));
}

for (const [name, lay] of [
  ['local', locally],
  ['SFTP', overSftp],
] as const)
  t.test(`${name}: a run fixes modes, and leaves bytes, catalog and action unchanged`, async (t) => {
    const { stand, root, modesOf } = await lay(t);
    const sound = ['755', '755', '644', '644', '644'];
    t.same(modesOf(entries), sound);
    const at = (entry: string): string => path.join(root, entry);
    chmodSync(at('one/a'), 0o777);
    chmodSync(at('one/a/page.html'), 0o666);
    chmodSync(at('one/map.json'), 0o000);
    chmodSync(at('one/.publisher.json'), 0o606);
    const changed = modesOf(entries);
    const [{ ino }, state] = [statSync(at('one/map.json')), readFileSync(at('one/.publisher.json'), 'utf8')];
    const would = '4 published files or directories have another mode than file_mode or directory_mode';
    t.match(await stand.run({ request: { dryRun: true } }), {
      destinations: [
        { actions: [{ action: 'skip_same' }], warnings: [{ code: 'modes_fixed', message: RegExp(would) }] },
      ],
    });
    t.same(modesOf(entries), changed, 'a dry run changes nothing');
    t.match(await stand.run(), {
      destinations: [
        {
          actions: [{ action: 'skip_same' }],
          warnings: [{ code: 'modes_fixed', message: /^4 .* changed$/ }],
        },
      ],
    });
    t.same(modesOf(entries), sound);
    t.equal(statSync(at('one/map.json')).ino, ino);
    t.equal(readFileSync(at('one/.publisher.json'), 'utf8'), state);
    t.match(await stand.run(), { destinations: [{ warnings: { length: 0 } }] }, 'reported once');
  });

t.test('a publication of changes fixes the modes of kept files', async (t) => {
  const { stand, root, modesOf } = await locally(t);
  chmodSync(path.join(root, 'one/map.json'), 0o600);
  await stand.add('one', { 'a/page.html': '<p>new</p>', 'map.json': '{}' });
  t.match(await stand.run(), {
    destinations: [{ actions: [{ action: 'replace_catalog' }], warnings: [{ code: 'modes_fixed' }] }],
  });
  t.same(modesOf(['one/map.json']), ['644']);
});

t.test('fixes the current release', async (t) => {
  const root = t.testdir();
  const stand = new Stand();
  stand.web = await localStorage(root);
  t.teardown(() => stand.web.close());
  const releases = { keep: 5, lingerMs: 0, currentInUrl: false, channels: [] };
  await stand.add('one', { 'map.json': '{}' });
  await stand.run({ releases });
  const file = path.join(root, 'one/current/map.json');
  chmodSync(file, 0o666);
  t.match(await stand.run({ releases }), {
    destinations: [{ actions: [{ action: 'skip_same' }], warnings: [{ code: 'modes_fixed' }] }],
  });
  t.equal(statSync(file).mode & 0o777, 0o644);
});

t.test('the root and foreign files keep their modes', async (t) => {
  const { stand, root, modesOf } = await locally(t);
  writeFileSync(path.join(root, 'one/foreign.txt'), 'foreign');
  chmodSync(path.join(root, 'one/foreign.txt'), 0o606);
  chmodSync(path.join(root, 'one/a'), 0o2755);
  chmodSync(path.join(root, 'one'), 0o2775);
  chmodSync(root, 0o2775);
  t.match(await stand.run(), { destinations: [{ warnings: { length: 0 } }] });
  t.same(modesOf(['', 'one', 'one/a', 'one/foreign.txt']), ['2775', '2775', '2755', '606']);
});

/** Another user replaces a published file by a private file of ours. */
for (const [name, lay] of [
  ['local', locally],
  ['SFTP', overSftp],
] as const)
  t.test(
    `${name}: a private file never gets more permissions through a name in the destination`,
    async (t) => {
      const { stand, root } = await lay(t);
      const secret = path.join(root, '../secret');
      writeFileSync(secret, '<p>page</p>', { mode: 0o600 });
      t.teardown(() => rmSync(secret, { force: true }));
      const page = path.join(root, 'one/a/page.html');
      rmSync(page);
      symlinkSync(secret, page);
      t.match(await stand.run(), {
        destinations: [{ actions: [{ action: 'skip_same' }], warnings: { length: 0 } }],
      });
      t.equal(statSync(secret).mode & 0o777, 0o600, 'a link is not followed');
      if (name === 'SFTP') return;
      rmSync(page);
      linkSync(secret, page);
      await stand.run();
      t.equal(statSync(secret).mode & 0o777, 0o600, 'a hard-linked file never gets more permissions');
      chmodSync(secret, 0o666);
      await stand.run();
      t.equal(statSync(secret).mode & 0o777, 0o644, 'but it loses permissions');
    },
  );

t.test('a file of another size is not the published one', async (t) => {
  const { root } = await locally(t);
  const storage = await localStorage(root);
  t.teardown(() => storage.close());
  chmodSync(path.join(root, 'one/map.json'), 0o600);
  const fix = async (size: number): Promise<FixedModes | undefined> =>
    storage.fixModes(
      { files: new Map([[listedKey('one/map.json'), size]]), directories: [listedKey('gone')] },
      { dryRun: false },
    );
  t.same(await fix(3), { fixed: 0, refused: 0 });
  t.same(await fix(2), { fixed: 1, refused: 0 });
});
