import t from 'tap';
import type { BundleCandidate } from '../../../src/core/bundle/discover.ts';
import type { SourceBundle } from '../../../src/core/bundle/source-bundle.ts';
import { errorRecord, finding, WaybillError } from '../../../src/core/lib/errors.ts';
import {
  BundleLoader,
  type BundleSelection,
  type InvalidBundle,
  selectFromSource,
  selectLoaded,
} from '../../../src/core/publish/select-bundles.ts';
import { bundleOf, destinationOf } from '../../faults/world.ts';
import { instant } from '../../support/instant.ts';

const candidates = ['old', 'new'].map((path, index) => ({
  path,
  created: instant(`2026-11-2${index}T00:00:00Z`),
})) as unknown as BundleCandidate[];
const preserving = destinationOf('additive');
const fixed = { ...preserving, mapping: 'fixed' as const };
const unreadable: InvalidBundle = {
  bundle: 'bad',
  error: errorRecord(new WaybillError('invalid_bundle', 'no JSON')),
};

function warningOf(path: string): ReturnType<typeof finding> {
  return finding('warning', 'not_listed', path);
}

/** A loader of bundles, some of which fail, and a list of its reads. */
function loaderOf(failures: Record<string, Error> = {}): { loader: BundleLoader; read: string[] } {
  const read: string[] = [];
  const loader = new BundleLoader(async ({ path }): Promise<SourceBundle> => {
    read.push(path);
    if (failures[path] !== undefined) throw failures[path];
    return { ...bundleOf({ a: path }, path), warnings: [warningOf(path)] };
  });
  return { loader, read };
}

const paths = ({ bundles }: BundleSelection): string[][] =>
  bundles.map(({ bundle, destinationPath }) => [bundle.path, destinationPath]);
const incomplete = new WaybillError('invalid_bundle', 'a file is missing');

t.test('each destination gets the bundles of its mapping, and each bundle is read once', async (t) => {
  const { loader, read } = loaderOf();
  const content = { candidates, invalid: [], loader };
  const newest = await selectFromSource(fixed, content);
  t.same(paths(newest), [['new', '.']]);
  t.match(newest, { error: null, warnings: [{ code: 'fixed_bundle_selected', file: 'new' }] });
  t.same(read, ['new'], 'unselected files are not read');
  const all = await selectFromSource(preserving, content);
  t.same(paths(all), [
    ['new', 'new'],
    ['old', 'old'],
  ]);
  t.match(all, { error: null });
  t.same(all.warnings, []);
  t.same(read, ['new', 'old']);
  t.equal(all.bundles[0]?.bundle, newest.bundles[0]?.bundle);
  t.same(await loader.outcome(), { invalid: [], warnings: [warningOf('new'), warningOf('old')] });
});

t.test('an unreadable manifest excludes its bundle, or all bundles if it may be the newest', async (t) => {
  const { loader, read } = loaderOf();
  const content = { candidates, invalid: [unreadable], loader };
  const none = await selectFromSource(fixed, content);
  t.same(none.bundles, []);
  t.match(none, {
    error: { code: 'invalid_bundle', message: /^the bundle "bad" is invalid/ },
    warnings: [{ file: 'new' }],
  });
  t.same(read, []);
  const others = await selectFromSource(preserving, content);
  t.equal(others.bundles.length, 2);
  t.equal(others.error, null);
});

t.test('an incomplete bundle does the same, and no older one is published instead', async (t) => {
  const { loader } = loaderOf({ new: incomplete });
  const content = { candidates, invalid: [], loader };
  const none = await selectFromSource(fixed, content);
  t.same(none.bundles, []);
  t.match(none, {
    error: { code: 'invalid_bundle', message: 'a file is missing' },
    warnings: [{ file: 'new' }],
  });
  const others = await selectFromSource(preserving, content);
  t.same(paths(others), [['old', 'old']]);
  t.equal(others.error, null);
  t.same(await loader.outcome(), {
    invalid: [{ bundle: 'new', error: errorRecord(incomplete) }],
    warnings: [warningOf('old')],
  });
});

t.test('any other failure belongs to the destination, not to the bundle', async (t) => {
  for (const failure of [new WaybillError('storage_transient', 'busy'), new Error('a defect')]) {
    const { loader } = loaderOf({ new: failure });
    const content = { candidates, invalid: [], loader };
    await t.rejects(selectFromSource(preserving, content), { message: failure.message });
    t.same(await loader.outcome(), { invalid: [], warnings: [] });
  }
});

t.test('maps bundles that are already loaded, without selecting again from a source', async (t) => {
  const selector = selectLoaded([bundleOf({ a: 'a' }, 'up')]);
  const selection = await selector.select(fixed);
  t.same(paths(selection), [['up', '.']]);
  t.match(selection, { error: null, warnings: [{ code: 'fixed_bundle_selected' }] });
  t.equal(selector.selectAgain, null);
});
