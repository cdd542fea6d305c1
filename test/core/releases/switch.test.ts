import { EventEmitter, once } from 'node:events';
import { lstatSync, readFileSync, readlinkSync, symlinkSync, truncateSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { retireReleases } from '../../../src/core/publish/unpublish/retire-releases.ts';
import { currentObjectKey, type ReleaseId, releaseKey } from '../../../src/core/releases/release.ts';
import { ledgerKey, readReleases, requireReleases } from '../../../src/core/releases/releases-store.ts';
import { releaseStorage, surveyReleases } from '../../../src/core/releases/stored-releases.ts';
import { activate, promote, resume, rollBack } from '../../../src/core/releases/switch.ts';
import { bytesBody, readAll } from '../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../src/core/storage/key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { lookAtReleases, retire, site, siteOf, writeRelease } from '../../faults/release-world.ts';
import { withFaults } from '../../faults/with-faults.ts';
import { contextWith, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const how = { dryRun: false };
const context = contextWith(testClock());
const worlds = {
  'memory files': async () => memoryStorage({ flavour: 'files' }),
  'memory objects': async () => memoryStorage({ flavour: 'objects' }),
};

async function withReleases(root: Storage, count: number): Promise<ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for (let n = 0; n < count; n += 1) {
    const id = await writeRelease(root, n);
    t.match(await activate(context, siteOf(root), id, how), { outcome: 'switched', to: id });
    ids.push(id);
  }
  return ids;
}

for (const [name, open] of Object.entries(worlds)) {
  t.test(`${name}: rolls back, holds, promotes and rolls back again`, async (t) => {
    const root = await open();
    const storage = siteOf(root);
    const [first, second] = (await withReleases(root, 2)) as [ReleaseId, ReleaseId];
    t.same(await activate(context, storage, second, how), { outcome: 'unchanged', current: second });
    t.same(await rollBack(context, storage, null, how), { outcome: 'switched', from: second, to: first });
    const held = { outcome: 'refused', refusal: { why: 'rolled_back', id: second } };
    t.same(await activate(context, storage, second, how), held);
    t.same(await activate(context, storage, second, how), held, 'however often it is repeated');
    const third = await writeRelease(root, 2);
    t.same(await activate(context, storage, third, how), { outcome: 'switched', from: first, to: third });
    t.same(await rollBack(context, storage, null, how), { outcome: 'switched', from: third, to: first });
    t.match(await promote(context, storage, third, how), { outcome: 'switched', to: third });
    t.match(await rollBack(context, storage, first, how), { outcome: 'switched', to: first });
    const resumed = [third];
    t.same(await resume(context, storage, how), { outcome: 'unchanged', current: first, resumed });
    const again = { outcome: 'unchanged', current: first, resumed: [] };
    t.same(await resume(context, storage, how), again, 'a second time');
    t.match(await activate(context, storage, third, how), { outcome: 'switched', to: third });
  });

  t.test(`${name}: an incomplete release cannot become current and is named`, async (t) => {
    const root = await open();
    const storage = siteOf(root);
    const [first, second] = (await withReleases(root, 2)) as [ReleaseId, ReleaseId];
    const refusal = async (id: ReleaseId): Promise<unknown> => rollBack(context, storage, id, how);
    const unknown = '20200101T000000Z-00000000' as ReleaseId;
    t.match(await refusal(unknown), { refusal: { why: 'not_found', id: unknown } });
    const release = releaseStorage(storage, first);
    await release.remove(key('index.html'));
    t.match(await refusal(first), { refusal: { why: 'damaged', id: first, path: 'index.html', others: 0 } });
    await release.write(key('index.html'), bytesBody('of another size'), { mode: 'replace' });
    await release.remove(key('assets/app.js'));
    t.match(await rollBack(context, storage, null, how), {
      refusal: { why: 'damaged', path: 'assets/app.js', others: 1 },
    });
    await release.write(key('.publisher.json'), bytesBody('{'), { mode: 'replace' });
    t.match(await refusal(first), { refusal: { why: 'unreadable' } });
    t.equal((await readReleases(storage)).current, second);
  });

  t.test(`${name}: refuses a release that is being removed, and finishes the removal`, async (t) => {
    const root = await open();
    const storage = siteOf(root);
    const ids = await withReleases(root, 3);
    const [first] = ids as [ReleaseId];
    const killed: Storage = delegate(root, {
      // The first change of a removal after its announcement.
      removeTree: async () => Promise.reject(new Error('killed')),
      backUp: async () => Promise.reject(new Error('killed')),
    });
    await t.rejects(retire(killed, 0));
    t.same((await readReleases(storage)).ledger.removing, [first]);
    t.match(await promote(context, storage, first, how), { refusal: { why: 'being_removed', id: first } });
    t.same(await retire(root, 0), [first]);
    t.match(await promote(context, storage, first, how), { refusal: { why: 'not_found', id: first } });
    t.same((await readReleases(storage)).ledger.removing, []);
  });

  t.test(`${name}: a dry run has the same result and changes nothing`, async (t) => {
    const root = await open();
    const storage = siteOf(root);
    const [first, second] = (await withReleases(root, 2)) as [ReleaseId, ReleaseId];
    const locked: Storage = delegate(storage, {
      write: async () => Promise.reject(new Error('written')),
      replaceLink: async () => Promise.reject(new Error('switched')),
    });
    const dry = { dryRun: true };
    t.same(await rollBack(context, locked, null, dry), { outcome: 'switched', from: second, to: first });
    t.same(await promote(context, locked, first, dry), { outcome: 'switched', from: second, to: first });
    t.same(await resume(context, locked, dry), { outcome: 'unchanged', current: second, resumed: [] });
    t.match(await rollBack(context, locked, first, dry), { outcome: 'switched' });
  });
}

t.test('local: current is a relative link, and a rollback moves no data', async (t) => {
  const root = t.testdir();
  const opened = await localStorage(root);
  const [first, second] = (await withReleases(opened, 2)) as [ReleaseId, ReleaseId];
  const at = (name: string): string => path.join(root, site, name);
  t.equal(readlinkSync(at('current')), releaseKey(second));
  t.equal(readFileSync(at('current/index.html'), 'utf8'), 'page 1');
  const before = lstatSync(at(`${releaseKey(first)}/index.html`));
  const noBytes: Storage = delegate(opened, {
    write: async (name, body, options) => {
      t.match(name, /\.publisher\.(lock|releases\.json)$/, 'only lock and ledger are written');
      return opened.write(name, body, options);
    },
  });
  t.match(await rollBack(context, siteOf(noBytes), null, how), { outcome: 'switched', to: first });
  t.equal(readFileSync(at('current/index.html'), 'utf8'), 'page 0');
  t.same(lstatSync(at('current/index.html')).ino, before.ino);
  truncateSync(at(`${releaseKey(second)}/index.html`), 1);
  t.match(await promote(context, siteOf(opened), second, how), { refusal: { why: 'damaged' } });
});

t.test('local: keeps a pointer that names no release', async (t) => {
  const root = t.testdir({ [site]: {}, other: { precious: 'x' } });
  symlinkSync('../other', path.join(root, site, 'current'));
  const opened = await localStorage(root);
  const id = await writeRelease(opened, 0);
  const refusal = { why: 'foreign_pointer', target: '../other' };
  t.match(await activate(context, siteOf(opened), id, how), { outcome: 'refused', refusal });
  t.equal(readlinkSync(path.join(root, site, 'current')), '../other');
  t.same(await retire(opened, 0), [], 'it is unknown which release readers see');
});

t.test('objects: the pointer is a small object that names the current release', async (t) => {
  const root = memoryStorage({ flavour: 'objects' });
  const [, second] = await withReleases(root, 2);
  const document = JSON.parse((await readAll(siteOf(root), currentObjectKey, 1 << 20)).toString()) as object;
  t.match(document, { schema_version: 1, current: `releases/${String(second)}` });
});

t.test('refuses releases on storages that cannot switch safely', async (t) => {
  await requireReleases(memoryStorage({ flavour: 'files' }));
  await requireReleases(memoryStorage({ flavour: 'objects' }));
  for (const conditionalWrites of ['create', 'none'] as const)
    await t.rejects(requireReleases(memoryStorage({ flavour: 'objects', conditionalWrites })), {
      code: 'storage_permanent',
      message: /conditional writes/,
      hint: /in_place/,
    });
  const files = memoryStorage({ flavour: 'files' });
  const withoutLinks = delegate(files, { replaceLink: undefined });
  await t.rejects(requireReleases(withoutLinks), { message: /posix-rename@openssh\.com/ });
});

t.test('removes an abandoned release but not one that is being written', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const ids = await withReleases(root, 2);
  const steps = new EventEmitter();
  const [onward, isStaging] = [once(steps, 'onward'), once(steps, 'staging')];
  const slow: Storage = delegate(root, {
    write: async (name, body, options) => {
      if (name.includes('/output-')) {
        steps.emit('staging');
        await onward;
      }
      return root.write(name, body, options);
    },
  });
  const publication = writeRelease(slow, 5);
  await isStaging;
  const written = (await surveyReleases(siteOf(root))).stored.filter(({ state }) => state === 'writing');
  t.equal(written.length, 1, 'its intent stays');
  t.same(await retire(root, 0), []);
  steps.emit('onward');
  t.same(await activate(context, siteOf(root), await publication, how), {
    ...{ outcome: 'switched', from: ids[1], to: await publication },
  });

  const killed = withFaults(
    root,
    { kind: 'crash', at: 14, code: 'storage_transient' },
    { operations: [], fired: false, mutations: 0 },
  );
  await t.rejects(writeRelease(killed, 6));
  const [abandoned] = (await surveyReleases(siteOf(root))).stored.filter(
    ({ state }) => state === 'abandoned',
  );
  t.ok(abandoned);
  t.match(await activate(context, siteOf(root), abandoned?.id as ReleaseId, how), {
    refusal: { why: 'unfinished' },
  });
  t.same(await retire(root, 0), [ids[0], abandoned?.id]);
});

t.test('a slow retention keeps a release that was published again in the meantime', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const storage = siteOf(root);
  const [first] = (await withReleases(root, 3)) as [ReleaseId];
  const meanwhile = async (): Promise<void> => {
    t.same(await retire(root, 0), [first], 'another process is faster');
    t.equal(await writeRelease(root, 0), first);
    t.match(await activate(context, storage, first, how), { outcome: 'switched', to: first });
  };
  let isAnnounced = false;
  const slow: Storage = delegate(storage, {
    write: async (name, body, options) => {
      const written = await storage.write(name, body, options);
      isAnnounced ||= name === ledgerKey;
      return written;
    },
    async *read(name, range) {
      if (isAnnounced && name.startsWith(`${releaseKey(first)}/`)) {
        isAnnounced = false;
        await meanwhile();
      }
      yield* storage.read(name, range);
    },
  });
  await retireReleases(context, slow, { rule: { keep: 0, lingerMs: 0 }, concurrency: 1 });
  t.match(await activate(context, storage, first, how), { outcome: 'unchanged', current: first });
  t.same((await lookAtReleases(root)).wrong, []);
  const { ledger } = await readReleases(storage);
  t.ok(
    ledger.history.some(({ id }) => id === first),
    'it is recorded',
  );
});

t.test('does not switch to a release based on another current release', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const storage = siteOf(root);
  const [first, second] = (await withReleases(root, 2)) as [ReleaseId, ReleaseId];
  const third = await writeRelease(root, 2);
  const refused = { outcome: 'refused', refusal: { why: 'overtaken', id: third } };
  for (const from of [first, null])
    t.same(await activate(context, storage, third, { ...how, from }), refused);
  t.equal((await readReleases(storage)).current, second);
  t.match(await activate(context, storage, second, { ...how, from: first }), { outcome: 'unchanged' });
  t.match(await activate(context, storage, third, { ...how, from: second }), { outcome: 'switched' });
});
