import t, { type Test } from 'tap';
import { bundlesInFeed } from '../../src/core/outputs/json-feed.ts';
import { unpublishListed } from '../../src/core/publish/root-index/listed-changes.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { Stand } from '../core/publish/stand.ts';
import { startRadosgw } from '../services/radosgw.ts';
import { startSshd } from '../services/sshd.ts';
import { s3Worlds, sftpWorlds } from './server-worlds.ts';
import { type FaultLog, withFaults } from './with-faults.ts';
import { contextWith, destinationOf, owner, snapshot, testClock, type World } from './world.ts';

/*
 * The index of a root on real servers: it is created, stays unchanged, and is removed with the last bundle.
 */

async function comesAndGoes(t: Test, world: World): Promise<void> {
  const web: Storage = await world.open();
  const stand = new Stand();
  stand.web = web;
  for (const name of ['one', 'two']) await stand.add(name, { 'index.html': name });
  const listed = async (): Promise<string[]> =>
    (bundlesInFeed((await snapshot(web)).get('feed.json') ?? '') ?? []).map(({ path }) => path).sort();
  t.match(await stand.run({ rootIndex: true }), {
    status: 'ok',
    destinations: [{ warnings: { length: 0 } }],
  });
  t.strictSame(await listed(), ['one', 'two']);
  await stand.add('three', { 'a.txt': '3' });
  await stand.run({ rootIndex: true });
  t.strictSame(await listed(), ['one', 'three', 'two']);

  const log: FaultLog = { operations: [], fired: false, mutations: 0 };
  stand.web = withFaults(web, null, log);
  t.equal((await stand.run({ rootIndex: true })).status, 'ok');
  t.strictSame(
    log.operations.filter((operation) => /^write (?!\.publisher)/.test(operation)),
    [],
    'nothing is written again',
  );
  const destination = { ...destinationOf('replacement'), rootIndex: true };
  const request = { owner, maxRemoved: null, concurrency: 1, dryRun: false };
  for (const destinationPath of ['one', 'two', 'three']) {
    await unpublishListed(contextWith(testClock()), web, destination, { ...request, destinationPath });
    t.notOk((await listed()).includes(destinationPath), destinationPath);
  }
  t.strictSame([...(await snapshot(web)).keys()], [], 'no files are left');
}

t.test('S3', async (t) => {
  const server = await startRadosgw(t);
  const newWorld = await s3Worlds(t, server, { bucket: await server.newBucket() });
  await comesAndGoes(t, newWorld());
});

t.test('SFTP', async (t) => {
  const newWorld = await sftpWorlds(t, await startSshd(t));
  await comesAndGoes(t, newWorld());
});
