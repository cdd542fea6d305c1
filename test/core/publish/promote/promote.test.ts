import { mkdirSync, renameSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { ownersOf, readPublished } from '../../../../src/core/publish/promote/read-published.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import type { ObjectPlace } from '../../../../src/core/storage/capabilities.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import {
  bundleOf,
  contextWith,
  destinationOf,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
} from '../../../faults/world.ts';
import { actionsOf, errorOf, files, filesAt, objects, promoted, sorted, v1, v2 } from './promotions.ts';

for (const [name, open] of [
  ['files', files],
  ['objects', objects],
] as const) {
  t.test(`${name}: the second promotion and a run from the source change nothing`, async (t) => {
    const [staging, live] = [open(), open()];
    await publishTo(staging, { files: v1, created: '2026-11-20T01:00:00.1234567891+01:00' });
    t.same(actionsOf(await promoted(staging, live, { dryRun: true })), [['bundle', 'publish_new']]);
    t.same(await snapshot(live), new Map(), 'a dry run writes nothing');
    t.same(actionsOf(await promoted(staging, live)), [['bundle', 'publish_new']]);
    t.same(await filesAt(live), sorted(v1));
    const before = await snapshot(live);
    t.same(actionsOf(await promoted(staging, live)), [['bundle', 'skip_same']]);
    const run = await publishTo(live, {
      files: v1,
      as: { pipelineId: 'maps', destinationId: 'live' },
      workflow: 'replacement',
    });
    t.equal(run.action, 'skip_same', 'the content has the identity of its bundle');
    t.same(await snapshot(live), before);
    t.match(await stateOf(live), {
      catalog: {
        bundles: [{ created: '2026-11-20T00:00:00.1234567891Z', owner: { destinationId: 'live' } }],
      },
    });
  });

  t.test(`${name}: a later version replaces the earlier one and no other file`, async (t) => {
    const [staging, live] = [open(), open()];
    await publishTo(staging, { files: v1 });
    await promoted(staging, live);
    await put(live, 'bundle/unmanaged.txt', 'not ours');
    await publishTo(staging, { files: v2, workflow: 'replacement' });
    t.same(actionsOf(await promoted(staging, live)), [['bundle', 'replace_catalog']]);
    t.same(await filesAt(live), sorted({ ...v2, 'unmanaged.txt': 'not ours' }));
  });

  t.test(`${name}: keeps foreign files at the target`, async (t) => {
    const [staging, live] = [open(), open()];
    await publishTo(staging, { files: v1 });
    await put(live, 'bundle/a.txt', 'foreign');
    const before = await snapshot(live);
    t.match(await promoted(staging, live), {
      status: 'failed',
      destinations: [{ actions: [{ action: 'fail_unmanaged', error: { code: 'unmanaged_content' } }] }],
    });
    t.same(await snapshot(live), before);
    t.same(actionsOf(await promoted(staging, live, { force: true })), [['bundle', 'force_replace']]);
    t.same(await filesAt(live), sorted(v1));
  });

  t.test(`${name}: a missing, truncated or changed file fails with its path and digest`, async (t) => {
    const digest = /"bundle\/a\.txt" .*sha256:[0-9a-f]{64}/;
    for (const [damage, message] of [
      [async (root: Storage) => root.remove(listedKey('bundle/a.txt')), /is missing/],
      [async (root: Storage) => put(root, 'bundle/a.txt', 'longer'), /has 6 bytes/],
      [async (root: Storage) => put(root, 'bundle/a.txt', 'XX'), /has the digest sha256:[0-9a-f]{64}, and/],
    ] as const) {
      const [staging, live] = [open(), open()];
      await publishTo(staging, { files: v1 });
      await damage(staging);
      const error = await promoted(staging, live).then(errorOf, (thrown: unknown) => thrown);
      t.match(error, { code: 'verification_failed', message });
      t.match(error, { message: digest });
      t.same(await filesAt(live), {}, 'nothing is published');
    }
  });
}

t.test("uses the target's own generated outputs", async (t) => {
  const [staging, live] = [files(), files()];
  const manifestFile = { digest: digestOf('{}'), body: bytesBody('{}') };
  const index = { checksums: false, archive: true, index: true, sceneMapPage: false };
  const publication = {
    bundle: { ...bundleOf(v1, '.'), name: 'atlas' as RelativePath, manifestFile },
    owner,
    destination: { ...destinationOf('replacement'), mapping: 'fixed' as const, outputs: index },
    destinationPath: '.',
  };
  const published = await publishBundle(contextWith(testClock()), staging, publication, {
    dryRun: false,
    force: false,
  });
  t.equal(published.error, null);
  t.ok((await snapshot(staging)).has('atlas.tar.gz'));
  t.same(actionsOf(await promoted(staging, live)), [['.', 'publish_new']]);
  t.same(await filesAt(live, ''), sorted(v1), 'the target generates none');
  const outputs = { checksums: true, archive: true, index: false, sceneMapPage: false };
  t.same(actionsOf(await promoted(staging, live, { to: { outputs } })), [['.', 'replace_catalog']]);
  t.same(
    Object.keys(await filesAt(live, '')).sort(),
    [...Object.keys(v1), 'SHA256SUMS', 'atlas.tar.gz'].sort(),
  );
});

t.test('promotes all bundle paths of the owner or one of them; keepsPaths keeps the paths', async (t) => {
  const staging = files();
  const at = async (destinationPath: string, as = owner): Promise<unknown> =>
    publishBundle(
      contextWith(testClock()),
      staging,
      {
        bundle: { ...bundleOf({ file: destinationPath }, destinationPath), path: destinationPath },
        owner: as,
        destination: destinationOf('replacement', as.destinationId),
        destinationPath,
      },
      { dryRun: false, force: false },
    );
  await at('one');
  await at('deep/two');
  await at('other', otherOwner);
  t.same(actionsOf(await promoted(staging, files())), [
    ['deep/two', 'publish_new'],
    ['one', 'publish_new'],
  ]);
  t.same(actionsOf(await promoted(staging, files(), { from: { path: 'one' } })), [['one', 'publish_new']]);
  t.same(actionsOf(await promoted(staging, files(), { as: otherOwner })), [['other', 'publish_new']]);
  t.match(ownersOf(await readPublished(staging, { name: 'x', mapping: null, layout: 'in_place' })), [
    owner,
    otherOwner,
  ]);

  const root = files();
  const fixed = { ...destinationOf('replacement'), mapping: 'fixed' as const };
  const publication = { bundle: bundleOf(v1, 'session-42'), owner, destination: fixed, destinationPath: '.' };
  await publishBundle(contextWith(testClock()), root, publication, { dryRun: false, force: false });
  t.same(actionsOf(await promoted(root, files())), [['session-42', 'publish_new']], 'as from the source');
  t.same(actionsOf(await promoted(root, files(), { keepsPaths: true })), [['.', 'publish_new']]);
});

t.test('reports an empty source, an empty catalog, and unreadable catalogs', async (t) => {
  const refused = async (
    staging: Storage,
    expected: { code: string; message?: string | RegExp },
  ): Promise<void> => {
    const live = files();
    await t.rejects(promoted(staging, live), expected);
    t.same(await snapshot(live), new Map());
  };
  const without = { code: 'not_published', message: '"web" has no files that maps/web published' };
  await refused(files(), without);
  const foreign = files();
  await put(foreign, 'bundle/a.txt', 'foreign');
  await refused(foreign, without);
  const catalog = {
    ...{ schema_version: 4, generation: 1, updated_at: '2026-11-20T00:00:00.000Z' },
    ...{ bundles: [], outputs: [], pending: null },
  };
  const with_ = async (document: object): Promise<Storage> => {
    const storage = files();
    await put(storage, 'bundle/.publisher.json', JSON.stringify(document));
    return storage;
  };
  await refused(await with_(catalog), without);
  const output = {
    ...{ path: 'a.txt', owner: { pipeline_id: 'maps', destination_id: 'web' }, kind: 'file' },
    ...{ source: { backend: 'local', id: '/source', path: 'bundle' }, size: 1 },
    ...{ digest: `sha256:${'0'.repeat(64)}`, updated_at: '2026-11-20T00:00:00.000Z', url: null },
    generated: { content_type: 'text/plain' },
  };
  for (const hostile of ['../../etc/passwd', '/etc/passwd', 'a/../../b', '.publisher.json'])
    await refused(await with_({ ...catalog, outputs: [{ ...output, path: hostile }] }), {
      code: 'state_conflict',
      message: /^"bundle" of "web": the catalog is invalid/,
    });
  await refused(
    await with_({ ...catalog, outputs: [{ ...output, source: { ...output.source, path: '../up' } }] }),
    {
      code: 'state_conflict',
      message: /the bundle "\.\.\/up"/,
    },
  );
  await refused(await with_({ ...catalog, schema_version: 99 }), { code: 'state_conflict' });
});

t.test('a file names its source object, so that its server may copy it', async (t) => {
  const [staging, live] = [objects(), objects()];
  await publishTo(staging, { files: { 'a.txt': 'a1' } });
  const placeOf = (key: string): ObjectPlace => ({ server: 's3', bucket: 'staging', key: `prefix/${key}` });
  const origins: (ObjectPlace | undefined)[] = [];
  const writing = delegate(live, {
    async write(key, body, options) {
      origins.push(body.origin?.());
      return live.write(key, body, options);
    },
  });
  await promoted({ ...staging, placeOf }, writing);
  t.same(
    origins.filter((origin) => origin !== undefined),
    [{ server: 's3', bucket: 'staging', key: 'prefix/bundle/a.txt' }],
  );
});

t.test('local: a link at the path of a file or a directory is not followed', async (t) => {
  for (const name of ['a.txt', 'dir']) {
    const directory = path.join(t.testdir(), name);
    mkdirSync(directory);
    const staging = await localStorage(directory);
    await publishTo(staging, { files: v1 });
    const at = path.join(directory, 'bundle', name);
    renameSync(at, `${at}.real`);
    symlinkSync(`${at}.real`, at);
    const live = files();
    const failure = await promoted(staging, live).then(errorOf, (thrown: unknown) => thrown);
    t.match(failure, { code: 'verification_failed', message: /"bundle\/(a|dir\/c)\.txt" is missing/ });
    t.same(await filesAt(live), {});
  }
});
