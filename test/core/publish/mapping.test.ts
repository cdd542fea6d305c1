import fc from 'fast-check';
import t from 'tap';
import type { Instant } from '../../../src/core/lib/instant.ts';
import { mapBundles } from '../../../src/core/publish/select-bundles.ts';
import { instant } from '../../support/instant.ts';

const bundle = (path: string, created: string): { path: string; created: Instant } => ({
  path,
  created: instant(created),
});

t.test('preserve_relative publishes every bundle at its own path, ordered by code units', async (t) => {
  const { selected, warnings } = mapBundles('preserve_relative', [
    bundle('b', '2026-01-01T00:00:00Z'),
    bundle('a/c', '2026-01-01T00:00:00Z'),
    bundle('Z', '2026-01-01T00:00:00Z'),
  ]);
  t.same(
    selected.map(({ destinationPath }) => destinationPath),
    ['Z', 'a/c', 'b'],
  );
  t.same(warnings, []);
});

t.test('fixed publishes the newest bundle at the root, and names it', async (t) => {
  const { selected, warnings } = mapBundles('fixed', [
    bundle('old', '2025-01-01T00:00:00Z'),
    bundle('b', '2026-01-01T00:00:00Z'),
    bundle('B', '2026-01-01T00:00:00Z'),
  ]);
  t.match(selected, [{ destinationPath: '.', bundle: { path: 'B' } }]);
  t.equal(selected.length, 1);
  t.match(warnings, [
    { severity: 'warning', message: /^target=\.: "B".*2 other bundles were not selected$/ },
  ]);
});

t.test('fixed: compares creation times to the last digit', async (t) => {
  const { selected } = mapBundles('fixed', [
    bundle('a', '2026-01-01T00:00:00.123456788Z'),
    bundle('b', '2026-01-01T00:00:00.123456789Z'),
    bundle('c', '2026-01-01T00:00:00.1234Z'),
  ]);
  t.match(selected, [{ bundle: { path: 'b' } }]);
});

t.test('fixed with one bundle still names it, and with none selects none', async (t) => {
  t.match(mapBundles('fixed', [bundle('.', '2026-01-01T00:00:00Z')]).warnings, [
    { message: /"\.".*the only bundle/ },
  ]);
  t.same(mapBundles('fixed', []), { selected: [], warnings: [] });
});

t.test('the order of discovery never matters (property)', async () => {
  const bundles = fc.uniqueArray(
    fc.record({
      path: fc.string({ minLength: 1 }),
      created: fc.integer({ min: 0, max: 3 }).map((n) => instant(`2026-01-01T00:00:00.000${n}Z`)),
    }),
    {
      selector: ({ path }) => path,
    },
  );
  fc.assert(
    fc.property(bundles, fc.constantFrom('fixed' as const, 'preserve_relative' as const), (list, mapping) => {
      const one = mapBundles(mapping, list);
      const other = mapBundles(mapping, [...list].reverse());
      return JSON.stringify(one) === JSON.stringify(other);
    }),
  );
});
