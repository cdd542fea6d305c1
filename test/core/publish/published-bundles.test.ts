import path from 'node:path';
import t from 'tap';
import type { PublishedBundle } from '../../../src/core/catalog/catalog.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { prune } from '../../../src/core/maintain/prune.ts';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import { publishBundles } from '../../../src/core/publish/publish.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import {
  bundleOf,
  contextWith,
  newWorld,
  otherOwner,
  owner,
  publishTo,
  put,
  stateOf,
  testClock,
} from '../../faults/world.ts';

async function bundlesAt(storage: Storage): Promise<PublishedBundle[]> {
  const state = await stateOf(storage);
  return state.kind === 'valid' ? state.catalog.bundles : [];
}

const source = { backend: 'local' as const, id: '/source', path: 'bundle' };
const context = contextWith(testClock());

for (const kind of ['memory files', 'memory objects', 'local'] as const) {
  t.test(`${kind}: the catalog has the creation time of each owner's last bundle`, async (t) => {
    const storage = await newWorld(kind, t).open();
    await publishTo(storage, { files: { a: '1' }, created: '2026-11-20T01:00:00.1234567891+01:00' });
    await publishTo(storage, { files: { b: '1' }, as: otherOwner, created: '2020-01-01T00:00:00Z' });
    const ours = { owner, source, created: '2026-11-20T00:00:00.1234567891Z' };
    const theirs = { owner: otherOwner, source, created: '2020-01-01T00:00:00.000Z' };
    t.same(await bundlesAt(storage), [ours, theirs]);

    await publishTo(storage, { files: { c: '1' }, created: '2026-11-19T00:00:00Z' });
    const older = { ...ours, created: '2026-11-19T00:00:00.000Z' };
    t.same(await bundlesAt(storage), [older, theirs], 'the last one published, not the newest');
    const again = await publishTo(storage, { files: { c: '1' }, created: '2026-11-21T00:00:00Z' });
    t.equal(again.action, 'skip_same', 'a change of created alone does not rewrite the state');
    t.same(await bundlesAt(storage), [older, theirs]);
  });

  t.test(`${kind}: an owner without outputs has no bundle in the catalog`, async (t) => {
    const storage = await newWorld(kind, t).open();
    await publishTo(storage, { files: { a: '1' } });
    await publishTo(storage, { files: { b: '1' }, as: otherOwner });
    await storage.remove(listedKey('bundle/b'));
    await reconcile(context, storage, { owner: otherOwner, dryRun: false, allOwners: false });
    t.match(await bundlesAt(storage), [{ owner }], 'reconciled');
    await publishTo(storage, { files: { b: '1' }, as: otherOwner });
    const policy = { enabled: true, keepLatest: 0, olderThanMs: null };
    await prune(context, storage, { owner, policy, maxRemoved: null, dryRun: false });
    t.match(await bundlesAt(storage), [{ owner: otherOwner }], 'pruned');

    await publishTo(storage, { files: { a: '1' } });
    await put(storage, 'bundle/.publisher.json', '{}');
    await publishTo(storage, { files: { a: '1' }, force: true });
    t.match(await bundlesAt(storage), [{ owner }], 'forced');
  });
}

t.test('republishes events of an interrupted run once, and no other unchanged one', async (t) => {
  const root = t.testdir();
  const yaml = `
upload_tokens: [{id: ci, value_env: CI, pipelines: [maps]}]
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./public}]
`;
  const { config } = parseConfig(Buffer.from(yaml), path.join(root, 'waybill.yaml'), { home: root });
  const secrets = await loadSecrets({ directory: null, env: {} });
  const notified: Occurrence[] = [];
  const context = {
    clock: systemClock,
    log: silentLog,
    secrets,
    openStorage: storageOpener({ clock: systemClock, log: silentLog, secrets }),
    notify: (occurrence: Occurrence) => void notified.push(occurrence),
  };
  const publish = (reportCommitsSince?: Date) =>
    publishBundles(context, config.pipelines[0]!, [bundleOf({ 'a.txt': 'a' }, 'session-42')], {
      dryRun: false,
      force: false,
      runId: 'maps.1',
      ...(reportCommitsSince === undefined ? {} : { reportCommitsSince: reportCommitsSince.toISOString() }),
    });
  const begun = new Date();
  await publish();
  t.match(notified, [{ type: 'bundle.published', data: { action: 'publish_new' } }]);
  await publish();
  await publish(new Date(begun.getTime() + 60_000));
  t.equal(notified.length, 1, 'published before the run began');
  await publish(begun);
  t.match(notified.slice(1), [
    {
      type: 'bundle.published',
      data: { action: 'skip_same', run_id: 'maps.1', outputs: [{ path: 'a.txt', fate: 'keep' }] },
    },
  ]);
  t.equal(notified.length, 2);
});
