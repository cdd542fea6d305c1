import t from 'tap';
import type { CatalogState } from '../../../../src/core/catalog/catalog.ts';
import type { StoredState } from '../../../../src/core/catalog/catalog-store.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { observe } from '../../../../src/core/publish/decision/observe.ts';
import type { DecisionInput, Observation } from '../../../../src/core/publish/plan.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { owner, put } from '../../../faults/world.ts';
import { catalog, output, record, unseen } from '../../../support/decisions.ts';
import { type MemoryOptions, memoryStorage } from '../../../support/memory-storage.ts';

type Input = Pick<DecisionInput, 'owner' | 'workflow' | 'planned' | 'force'>;

const absent: CatalogState = { kind: 'absent' };
const v1: CatalogState = { kind: 'legacy', version: 1, records: [] };
const named = (count: number, name: string): string[] =>
  Array.from({ length: count }, (_, index) => `${name}${index}`);

function planning(paths: readonly string[], more: Partial<Input> = {}): Input {
  const planned = paths.map((path) => output(path));
  return { owner, workflow: 'additive', planned, force: false, ...more };
}

/** A bundle path with these files of one byte, and every request that it gets. */
async function placeWith(
  files: readonly string[],
  flavour: MemoryOptions['flavour'] = 'files',
): Promise<{ storage: Storage; asked: string[] }> {
  const storage = memoryStorage({ flavour, maxBackupBytes: 5 });
  for (const name of files) await put(storage, name, 'x');
  const asked: string[] = [];
  return {
    storage: {
      ...storage,
      stat: (key) => (asked.push(`stat ${key}`), storage.stat(key)),
      list: (directory, options) => {
        asked.push(`list ${directory}${options.recursive ? '/**' : ''}`);
        return storage.list(directory, options);
      },
    },
    asked,
  };
}

async function seen(
  files: readonly string[],
  state: CatalogState,
  input: Input,
  flavour: MemoryOptions['flavour'] = 'files',
): Promise<Observation> {
  const { storage } = await placeWith(files, flavour);
  return observe(storage, input, read(state));
}

/** The observed state of the expected files. */
function part(found: Observation, expected: object): object {
  const names = Object.keys(expected) as (keyof Observation)[];
  return Object.fromEntries(names.map((name) => [name, found[name]]));
}

const read = (state: CatalogState): StoredState => ({ state, raw: null });

t.test('reads nothing more if the state settles the decision', async (t) => {
  const { storage, asked } = await placeWith(['a', 'foreign']);
  const state = catalog([record('a')]);
  const nothing = { ...unseen, state, maxBackupBytes: 5 };
  t.strictSame(await observe(storage, planning(['a']), read(state)), { ...nothing, isSettled: true });
  t.same(asked, []);
  const { isSettled } = await observe(storage, planning(['a', 'b']), read(state));
  t.equal(isSettled, false);
});

t.test("reports the storage's record together with the observation", async (t) => {
  for (const [flavour, keepsHeaders] of [
    ['files', false],
    ['objects', true],
  ] as const)
    t.match(await seen([], absent, planning(['a']), flavour), { keepsHeaders, maxBackupBytes: 5 }, flavour);
});

t.test('without a usable state, unknown content counts, and managed paths below do not', async (t) => {
  const cases: [what: string, files: string[], unmanagedFile: string | null, nested: string[]][] = [
    ['nothing', [], null, []],
    ['files', ['b', 'a'], 'a', []],
    ['a file far below', ['a/b/c/d'], 'a/b/c/d', []],
    ['what an attempt left', ['.publisher.tmp/x/a', '.publisher.lock', '.publisher.json'], null, []],
    ['the same below', ['d/.publisher.tmp/x/a'], null, []],
    ['a managed bundle path with its files', ['m/.publisher.json', 'm/a', 'm/d/b'], null, ['m']],
    ['one that is just being published', ['m/.publisher.lock', 'm/a'], null, ['m']],
    ['one in a directory', ['d/m/.publisher.json', 'd/m/a'], null, ['d/m']],
    ['one next to a lock', ['.publisher.lock', 'm/.publisher.json'], null, ['m']],
    ['one inside another', ['m/.publisher.json', 'm/n/.publisher.json'], null, ['m']],
    ['files next to one', ['m/.publisher.json', 'd/a'], 'd/a', ['m']],
  ];
  for (const [state, flavour] of [
    [absent, 'files'],
    [{ kind: 'invalid', reason: 'x' }, 'objects'],
    [{ kind: 'future', version: 5 }, 'files'],
  ] as const)
    for (const [what, files, unmanagedFile, nested] of cases) {
      const contentPresent = unmanagedFile !== null;
      const found = await seen(files, state, planning(['a']), flavour);
      const expected = { ...unseen, state, keepsHeaders: flavour === 'objects', maxBackupBytes: 5 };
      // The walk ends at the first content, and may not have reached the files below.
      const met = contentPresent ? found.nested.filter((one) => nested.includes(one)) : nested;
      t.strictSame(
        found,
        { ...expected, contentPresent, unmanagedFile, nested: met },
        `${state.kind}: ${what}`,
      );
    }
});

t.test('force sees every file that it would delete, including managed bundle paths', async (t) => {
  const files = [
    ...['z', 'b/c', 'a', '.publisher.json', '.publisher.lock', '.publisher.tmp/x/.publisher.json'],
    ...['n/.publisher.lock', 'n/a', 'm/.publisher.json', 'm/.publisher.lock', 'm/.publisher.tmp/1/f'],
  ];
  const all = { contents: ['a', 'b/c', 'n/a', 'z'], nested: ['m', 'n'], contentPresent: true };
  for (const state of [absent, catalog([]), v1])
    t.same(part(await seen(files, state, planning(['a'], { force: true })), all), all);
  const leftovers = ['.publisher.tmp/x/a', 'm/.publisher.json'];
  const none = { contents: [], nested: ['m'], contentPresent: false };
  t.same(part(await seen(leftovers, absent, planning(['a'], { force: true })), none), none);
});

t.test('a superseded state manages all existing files', async (t) => {
  const there = await seen(['a', 'd'], v1, planning(['a', 'd/e']));
  t.same(there, {
    ...unseen,
    state: v1,
    maxBackupBytes: 5,
    contentPresent: true,
    obstacles: new Map([['d', 'file']]),
  });
  const empty = await seen([], v1, planning(['a']));
  t.same(empty, { ...unseen, state: v1, maxBackupBytes: 5, contentPresent: true });
});

const records = [record('kept'), record('d/e/f')];
const cases: [what: string, files: string[], planned: string[], found: Partial<Observation>][] = [
  ['paths that are free', ['kept'], ['a', 'sub/b'], { unrecorded: [], nested: [] }],
  ['paths that are taken', ['sub/b', 'x'], ['a', 'sub/b', 'x'], { unrecorded: paths('sub/b', 'x') }],
  ['paths of managed bundle paths', ['m/n/.publisher.json'], ['m/n/o/a', 'b'], { nested: ['m/n'] }],
  ['paths next to them', ['m/n/.publisher.json'], ['m/a', 'b'], { nested: [] }],
];

for (const [what, files, planned, found] of cases)
  t.test(`the same result with single checks or one listing: ${what}`, async (t) => {
    const state = catalog(records);
    for (const flavour of ['files', 'objects'] as const)
      for (const others of [0, 30]) {
        const input = planning([...planned, ...named(others, 'free-')]);
        const expected = { contentPresent: true, isSettled: false, contents: [], ...found };
        t.same(part(await seen(files, state, input, flavour), expected), expected, `${flavour}, ${others}`);
      }
  });

function paths(...names: string[]): RelativePath[] {
  return names as RelativePath[];
}

t.test('a directory at a planned path is free if all its files are recorded', async (t) => {
  const state = catalog(records);
  const unrecorded = async (files: string[]): Promise<string[]> =>
    (await seen(files, state, planning(['d']))).unrecorded;
  t.same(await unrecorded(['d/e/f']), []);
  t.same(await unrecorded(['d/e/f', 'd/e/other']), ['d']);
});

t.test('a recorded path is an obstacle only if something else was found there', async (t) => {
  const state = catalog([record('a'), record('b')]);
  const found = await seen(['a/foreign', 'b'], state, planning(['a', 'b', 'c']));
  t.same([...found.damaged], [['a', 'not_a_file']]);
  t.same([...found.obstacles], [['a', 'directory']]);
  const { storage, asked } = await placeWith(['a', 'b']);
  const known = new Map([['b', 'missing']] as const);
  const again = await observe(storage, planning(['a', 'b', 'c']), read(state), known);
  t.equal(again.damaged, known, 'found earlier');
  t.notOk(asked.includes('stat a'), 'is not checked again');
});

const one = record('one');

/** The number of requests to an object store for new and recorded paths, in addition to `records` more. */
async function askedAbout(
  fresh: number,
  kept: number,
  more: number,
  flavour: MemoryOptions['flavour'],
): Promise<string[]> {
  const { storage, asked } = await placeWith([], flavour);
  const others = named(more, 'more-').map((path) => ({ ...one, path: path as RelativePath }));
  const state = catalog([...named(kept, 'kept-').map((path) => record(path)), ...others]);
  await observe(storage, planning([...named(fresh, 'new-'), ...named(kept, 'kept-')]), read(state));
  return asked;
}

t.test('on an object store, uses one listing instead of many requests', async (t) => {
  for (const [fresh, kept] of [
    [17, 0],
    [9, 8],
    [1, 16],
  ] as const)
    t.same(await askedAbout(fresh, kept, 0, 'objects'), ['list /**'], `${fresh} new, ${kept} kept`);
  t.equal((await askedAbout(16, 0, 0, 'objects')).length, 16, 'not for a few');
  t.equal((await askedAbout(8, 8, 0, 'objects')).length, 16);
  t.same(await askedAbout(17, 0, 8_499, 'objects'), ['list /**']);
  t.equal((await askedAbout(17, 0, 8_500, 'objects')).length, 17, 'and not if there is far more to list');
  t.equal((await askedAbout(17, 0, 0, 'files')).length, 17, 'nor in a file system');
});
