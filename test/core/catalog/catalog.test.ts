import t from 'tap';
import {
  bundlesOf,
  type Catalog,
  type CatalogState,
  isCommittedSince,
  nextGeneration,
  publishedBy,
  withPublished,
} from '../../../src/core/catalog/catalog.ts';
import type { Owner } from '../../../src/core/storage/identity.ts';
import { instant } from '../../support/instant.ts';

const ours: Owner = { pipelineId: 'maps', destinationId: 'web' };
const theirs: Owner = { pipelineId: 'other', destinationId: 'web' };
const bundle = (owner: Owner, path: string) => ({
  owner,
  source: { backend: 'local' as const, id: '/source', path },
  created: instant('2026-11-20T00:00:00Z'),
});
const at = (time: string, owner: Owner) => ({ owner, updatedAt: `2026-11-20T${time}Z` });

function stateOf(outputs: readonly object[]): CatalogState {
  const catalog = { bundles: [bundle(theirs, 'x'), bundle(ours, 'y')], outputs } as unknown as Catalog;
  return { kind: 'valid', catalog };
}

t.test('an owner has committed since a time if an output is at least as new', async (t) => {
  const since = '2026-11-20T10:00:00Z';
  for (const [what, outputs, isCommitted] of [
    ['nothing', [], false],
    ['one before', [at('09:59:59', ours)], false],
    ['one at that time', [at('10:00:00', ours)], true],
    ['one after', [at('10:00:01', ours)], true],
    ['one before and one after', [at('09:00:00', ours), at('11:00:00', ours)], true],
    ['one after, of another', [at('11:00:00', theirs), at('09:00:00', ours)], false],
    ['one after, next to another', [at('09:00:00', theirs), at('11:00:00', ours)], true],
  ] as const)
    t.equal(isCommittedSince(stateOf(outputs), ours, since), isCommitted, what);
  t.notOk(isCommittedSince({ kind: 'absent' }, ours, since));
});

t.test('records the last bundle of each owner that has outputs', async (t) => {
  const state = stateOf([]);
  t.match(publishedBy(state, ours), { source: { path: 'y' } });
  t.equal(publishedBy(state, { ...ours, destinationId: 'other' }), null);
  t.equal(publishedBy({ kind: 'absent' }, ours), null);
  const bundles = [bundle(theirs, 'x'), bundle(ours, 'y')];
  t.same(withPublished(bundles, bundle(theirs, 'z')), [bundle(ours, 'y'), bundle(theirs, 'z')]);
  t.same(bundlesOf(bundles, [{ owner: ours }, { owner: ours }]), [bundle(ours, 'y')]);
  t.same(bundlesOf(bundles, []), []);
});

t.test('the next generation can always be read back', (t) => {
  t.equal(nextGeneration(1), 2);
  t.equal(nextGeneration(Number.MAX_SAFE_INTEGER - 1), Number.MAX_SAFE_INTEGER);
  t.ok(Number.isSafeInteger(nextGeneration(Number.MAX_SAFE_INTEGER)));
  t.end();
});
