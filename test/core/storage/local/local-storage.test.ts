import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { bytesBody, storedBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { rejectsWith, storageContract } from '../../../contract/storage.ts';

t.test('local', (t) =>
  storageContract(t, async (t) => {
    const root = t.testdir();
    return { open: async () => localStorage(root) };
  }),
);

t.test('local, through a view of a subdirectory', (t) =>
  storageContract(t, async (t) => {
    const root = t.testdir();
    return { open: async () => subdirectory(await localStorage(root), key('deep/inside')) };
  }),
);

t.test(
  'a missing root lists as empty, is created by the first write, and is an error for a source',
  async (t) => {
    const root = path.join(t.testdir(), 'not', 'yet');
    await rejectsWith(t, localStorage(root, { mustExist: true }), 'storage_not_found');
    const storage = await localStorage(root);
    t.equal(await storage.stat(key('x')), undefined);
    t.notOk(existsSync(root), 'reads create nothing');
    await storage.write(key('x'), bytesBody('x'), { mode: 'replace' });
    t.equal(readFileSync(path.join(root, 'x'), 'utf8'), 'x');
  },
);

t.test('neither lists nor removes directories that are nested without end', async (t) => {
  const root = t.testdir();
  mkdirSync(path.join(root, '.publisher.tmp', 'd/'.repeat(200)), { recursive: true });
  const storage = await localStorage(root);
  const list = async (): Promise<void> => {
    for await (const { key: found } of storage.list('', { recursive: true })) t.fail(found);
  };
  await t.rejects(list(), { code: 'storage_permanent', message: 'nested deeper than 144' });
  await t.rejects(storage.removeTree(key('.publisher.tmp')), {
    code: 'storage_permanent',
    message: 'nested deeper than 144',
  });
});

t.test('a symbolic link below the root is an entry and never followed', async (t) => {
  const root = t.testdir({ outside: { precious: 'precious' }, root: {} });
  const inside = path.join(root, 'root');
  symlinkSync('../outside', path.join(inside, 'way'));
  symlinkSync('nowhere', path.join(inside, 'dangling'));
  const storage = await localStorage(inside);
  t.match(await storage.stat(key('way')), { type: 'link' });
  t.match(await storage.stat(key('dangling')), { type: 'link' }, 'a dangling link is listed, too');
  await rejectsWith(
    t,
    storage.write(key('way/new'), bytesBody('x'), { mode: 'replace' }),
    'storage_permanent',
  );
  await storage.write(key('.publisher.tmp/1/x'), bytesBody('x'), { mode: 'scratch' });
  await rejectsWith(
    t,
    storage.rename([{ from: key('.publisher.tmp/1/x'), to: key('way/precious') }]),
    'storage_permanent',
  );
  t.same(readdirSync(path.join(root, 'outside')), ['precious']);
  t.equal(readFileSync(path.join(root, 'outside/precious'), 'utf8'), 'precious');
  await rejectsWith(t, storage.remove(key('way/precious')), 'storage_permanent');
  await rejectsWith(t, storage.removeTree(key('way/precious')), 'storage_permanent');
  t.match(await storage.obstacleTo({ writes: [], removes: [key('way/precious')], from: '', bytes: null }), {
    code: 'storage_permanent',
    message: /"way" is not a directory/,
    hint: /symbolic link/,
  });
  await storage.remove(key('way/not-there'));
  t.equal(
    readFileSync(path.join(root, 'outside/precious'), 'utf8'),
    'precious',
    'nothing was removed through it',
  );
  await storage.remove(key('way'));
  t.ok(existsSync(path.join(root, 'outside/precious')), 'removing the link leaves its target');
});

t.test('copies from file to file with the same checks as streams', async (t) => {
  const root = t.testdir({ from: { small: 'small', grown: 'grown larger' }, to: {} });
  const from = await localStorage(path.join(root, 'from'));
  const to = await localStorage(path.join(root, 'to'));
  await to.write(key('small'), storedBody(from, { key: key('small'), size: 5 }), { mode: 'replace' });
  t.equal(readFileSync(path.join(root, 'to/small'), 'utf8'), 'small');
  await rejectsWith(
    t,
    to.write(key('grown'), storedBody(from, { key: key('grown'), size: 5 }), { mode: 'scratch' }),
    'body_mismatch',
  );
  await rejectsWith(
    t,
    to.write(key('gone'), storedBody(from, { key: key('gone'), size: 5 }), { mode: 'scratch' }),
    'storage_not_found',
  );
});

t.test(
  'a contender that removes the empty staging directory of a fresh lock does not stop its holder',
  async (t) => {
    const root = t.testdir();
    const [holder, contender] = await Promise.all([localStorage(root), localStorage(root)]);
    const lock = key('bundle/.publisher.lock');
    for (let round = 0; round < 3; round += 1) {
      await holder.write(lock, bytesBody('holder'), { mode: 'create' });
      await rejectsWith(
        t,
        contender.write(lock, bytesBody('contender'), { mode: 'create' }),
        'storage_exists',
      );
      t.notOk(existsSync(path.join(root, 'bundle/.publisher.tmp')), 'it is gone');
      await holder.write(key('bundle/.publisher.tmp/1/state'), bytesBody('x'), { mode: 'scratch' });
      await holder.rename([
        { from: key('bundle/.publisher.tmp/1/state'), to: key('bundle/.publisher.json') },
      ]);
      await holder.removeTree(key('bundle/.publisher.tmp/1'));
      await holder.remove(lock);
      t.same(readdirSync(path.join(root, 'bundle')), ['.publisher.json']);
    }
  },
);

t.test(
  "leaves nothing next to an exclusively created file after its removal or the storage's close",
  async (t) => {
    const root = t.testdir();
    const storage = await localStorage(root);
    await storage.write(key('a/.publisher.lock'), bytesBody('x'), { mode: 'create' });
    await storage.remove(key('a/.publisher.lock'));
    t.same(readdirSync(root), []);
    await storage.write(key('b/.publisher.lock'), bytesBody('x'), { mode: 'create' });
    await storage.close();
    t.same(readdirSync(path.join(root, 'b')), ['.publisher.lock']);
  },
);

t.test('a storage opened as read-only changes nothing', async (t) => {
  const root = t.testdir({ a: 'a' });
  const storage = await localStorage(root, { readOnly: true });
  await rejectsWith(t, storage.write(key('b'), bytesBody('b'), { mode: 'replace' }), 'storage_denied');
  await rejectsWith(t, storage.rename([{ from: key('a'), to: key('b') }]), 'storage_denied');
  await rejectsWith(t, storage.remove(key('a')), 'storage_denied');
  await rejectsWith(t, storage.removeTree(key('a')), 'storage_denied');
  t.same(readdirSync(root), ['a']);
});

t.test('reports a file where a directory is expected', async (t) => {
  const storage = await localStorage(t.testdir({ a: 'a file' }));
  await rejectsWith(t, storage.write(key('a/b'), bytesBody('x'), { mode: 'replace' }), 'storage_permanent');
  t.equal(await storage.stat(key('a/b')), undefined);
});

t.test('reports a directory where a file is expected', async (t) => {
  const storage = await localStorage(t.testdir({ dir: { full: '' } }));
  await rejectsWith(t, storage.write(key('dir'), bytesBody('x'), { mode: 'replace' }), 'storage_permanent');
});

t.test('reports a root that is a file, also for an exclusive create', async (t) => {
  const root = path.join(t.testdir(), 'root');
  const storage = await localStorage(root);
  writeFileSync(root, 'a file');
  await rejectsWith(t, localStorage(root), 'storage_permanent');
  for (const mode of ['create', 'replace', 'scratch'] as const)
    await rejectsWith(t, storage.write(key('bundle/x'), bytesBody('x'), { mode }), 'storage_permanent');
});

t.test(
  'no write fails while writers of other processes create and remove files in the same directory',
  async (t) => {
    const root = t.testdir();
    const storage = await localStorage(root);
    // Creates the staging directory, uses it and removes it, like another writer, in a separate thread.
    const neighbour = new Worker(
      `const { mkdirSync, rmdirSync, unlinkSync, writeFileSync } = require('node:fs');
    const { workerData: { directory}, parentPort } = require('node:worker_threads');
    const quietly = (work) => { try { work(); } catch {} };
    for (let turn = 0; ; turn += 1) {
      quietly(() => mkdirSync(directory));
      quietly(() => writeFileSync(directory + '/theirs', ''));
      quietly(() => unlinkSync(directory + '/theirs'));
      quietly(() => rmdirSync(directory));
      if (turn === 0) parentPort.postMessage('at work');
    }`,
      { eval: true, workerData: { directory: path.join(root, '.publisher.tmp') } },
    );
    await once(neighbour, 'message');
    const failed: unknown[] = [];
    for (let index = 0; index < 400; index += 1)
      await storage
        .write(key(`f${index % 50}`), bytesBody('x'), { mode: 'replace' })
        .catch((error: unknown) => {
          failed.push(error);
        });
    await neighbour.terminate();
    t.same(failed.map(String), []);
    t.equal(readdirSync(root).filter((name) => name.startsWith('f')).length, 50);
  },
);
