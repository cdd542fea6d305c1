import t from 'tap';
import type { PublishedBundle } from '../../../src/core/catalog/catalog.ts';
import { prune } from '../../../src/core/maintain/prune.ts';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import {
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
  t.test(`${kind}: the catalog has the created of the bundle that each owner published last`, async (t) => {
    const storage = await newWorld(kind, t).open();
    await publishTo(storage, { files: { a: '1' }, created: '2026-11-20T01:00:00.1234567891+01:00' });
    await publishTo(storage, { files: { b: '1' }, as: otherOwner, created: '2020-01-01T00:00:00Z' });
    const ours = { owner, source, created: '2026-11-20T00:00:00.1234567891Z' };
    const theirs = { owner: otherOwner, source, created: '2020-01-01T00:00:00.000Z' };
    t.same(await bundlesAt(storage), [ours, theirs]);

    await publishTo(storage, { files: { c: '1' }, created: '2026-11-19T00:00:00Z' });
    const older = { ...ours, created: '2026-11-19T00:00:00.000Z' };
    t.same(await bundlesAt(storage), [older, theirs], 'the last one, not the newest');
    const again = await publishTo(storage, { files: { c: '1' }, created: '2026-11-21T00:00:00Z' });
    t.equal(again.action, 'skip_same', 'created alone is no reason to rewrite the state');
    t.same(await bundlesAt(storage), [older, theirs]);
  });

  t.test(`${kind}: an owner without outputs has no bundle there`, async (t) => {
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
