import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import type { ActionResult } from '../../../src/core/publish/results/result.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';
import { bundlePath, type Files, otherOwner, publishTo, put } from '../../faults/world.ts';
import { memoryDirectory } from '../../support/memory-directory.ts';
import { type MemoryDisk, memoryStorage } from '../../support/memory-storage.ts';
import { howMany } from '../../support/sampling.ts';
import { marksBelow } from './incremental/suite.ts';

/**
 * A dry run lists exactly the files that the run then writes, keeps and deletes, whatever is at the
 * destination.
 */

interface Scene {
  /** Files published earlier by this owner and by another one. */
  published: Files | null;
  theirs: Files | null;
  /** Files created by hand. */
  strays: Files;
  /** Published files that were truncated (true) or deleted by hand. */
  damaged: Record<string, boolean>;
  state: (typeof states)[number];
  planned: Files;
  workflow: 'additive' | 'replacement';
  force: boolean;
}

const names = ['a', 'b.html', 'dir/c', 'dir/d', 'deep/er/e', 'deep/f'];
const strayNames = [...names, 'stray', 'dir/stray', 'odd name/#?%', '.hidden', 'z/.publisher.tmp/x'];
/** A file at the path of a planned directory, and a directory at the path of a file. */
const blocking = ['dir', 'a/inner', 'deep/er'];

const filesOf = (pool: readonly string[]): fc.Arbitrary<Files> =>
  fc.dictionary(fc.constantFrom(...pool), fc.constantFrom('1', 'two', 'three three'), {
    noNullPrototype: true,
  });

const states = ['as it is', 'as it is', 'as it is', 'invalid', 'gone'] as const;
const situations = fc.record({ force: fc.boolean(), state: fc.constantFrom(...states) });

const scenes: fc.Arbitrary<Scene> = situations.chain(({ force, state }) =>
  fc.record({
    published: fc.option(filesOf(names), { freq: 4 }),
    theirs: fc.option(filesOf(['theirs/x', 'theirs/y', 'a'])),
    // If force clears everything, any path may be blocked.
    strays: filesOf(force && state !== 'as it is' ? [...strayNames, ...blocking] : strayNames),
    damaged: fc.dictionary(fc.constantFrom(...names), fc.boolean(), { noNullPrototype: true }),
    state: fc.constant(state),
    planned: filesOf(names).filter((files) => Object.keys(files).length > 0),
    workflow: fc.constantFrom('additive', 'replacement'),
    force: fc.constant(force),
  }),
);

const plain: Scene = {
  ...{ published: { a: '1', 'dir/c': 'two' }, theirs: null, strays: {}, damaged: {}, state: 'as it is' },
  ...{ planned: { a: '1', 'dir/c': 'two' }, workflow: 'replacement', force: false },
};
/** A case for each action and each fate, which random ones might miss. */
const examples: Scene[] = [
  { ...plain, published: null },
  plain,
  { ...plain, workflow: 'additive', planned: { a: 'two', b: '1' } },
  { ...plain, planned: { a: 'two' } },
  { ...plain, planned: { a: '1', 'dir/c': '1', deep: '1' }, damaged: { a: false } },
  { ...plain, planned: { a: '1', 'dir/c': '1', deep: '1' }, damaged: { a: true } },
  { ...plain, state: 'gone' },
  { ...plain, state: 'invalid' },
  { ...plain, state: 'invalid', force: true, strays: { stray: '1' } },
];

interface Place {
  root: Storage;
  /** The content of the bundle path, and a stamp that changes with every write to it. */
  marks: () => ReadonlyMap<string, string>;
}

const kinds: Record<string, () => Promise<Place & { release: () => void }>> = {
  'memory, files': async () => memoryPlace('files'),
  'memory, objects': async () => memoryPlace('objects'),
  async local() {
    const directory = mkdtempSync(path.join(memoryDirectory(), 'waybill-dry-run-'));
    return {
      root: await localStorage(directory),
      marks: () => marksBelow(directory),
      release: () => rmSync(directory, { recursive: true, force: true }),
    };
  },
};

const seen = new Set<string>();

for (const [kind, open] of Object.entries(kinds))
  t.test(`${kind}: a dry run lists exactly the actions of the run`, async (t) => {
    await fc.assert(
      fc.asyncProperty(scenes, async (scene) => {
        const place = await open();
        try {
          await build(place.root, scene);
          const wrong = await differences(place, scene);
          if (wrong.length > 0) throw new Error(wrong.join('\n'));
        } finally {
          place.release();
        }
      }),
      { numRuns: howMany(2_000, 100), examples: examples.map((scene) => [scene]) },
    );
    t.pass('for random trees');
  });

t.test('every action occurred', async (t) => {
  for (const one of [
    ...['publish_new', 'upsert_additive', 'replace_catalog', 'force_replace', 'skip_same'],
    ...['fail_unmanaged', 'fail_conflict'],
    ...['add', 'change', 'keep', 'remove', 'missing', 'size_differs', 'forced', 'cleared', 'omitted'],
  ])
    t.ok(seen.has(one), one);
});

async function build(root: Storage, scene: Scene): Promise<void> {
  const bundle = subdirectory(root, listedKey(bundlePath));
  if (scene.published !== null) await publishTo(root, { files: scene.published });
  if (scene.theirs !== null) await publishTo(root, { files: scene.theirs, as: otherOwner });
  for (const [name, isCut] of Object.entries(scene.damaged)) {
    const key = listedKey(name);
    if ((await bundle.stat(key)) === undefined) continue;
    if (isCut) await put(bundle, name, '');
    else await bundle.remove(key);
  }
  for (const [name, text] of Object.entries(scene.strays))
    // A tree cannot have a file and a directory with the same name; the first one stays.
    await put(bundle, name, text).catch(() => undefined);
  if (scene.state === 'invalid') await put(bundle, '.publisher.json', '{');
  if (scene.state === 'gone') await bundle.remove(listedKey('.publisher.json'));
}

/** The differences between the run and the dry run. */
async function differences({ root, marks }: Place, scene: Scene): Promise<string[]> {
  const { planned: files, workflow, force } = scene;
  const before = marks();
  const predicted = await publishTo(root, { files, workflow, force, dryRun: true });
  const untouched = marks();
  const done = await publishTo(root, { files, workflow, force });
  const after = marks();
  seen.add(done.action);
  for (const { fate, why } of done.changes) seen.add(fate).add(why);

  const listed = (...fates: string[]): string[] =>
    predicted.changes.filter(({ fate }) => fates.includes(fate)).map(({ path }) => path);
  const removed = [...before.keys()].filter((name) => !after.has(name));
  const written = [...after.keys()].filter((name) => after.get(name) !== before.get(name));
  return [
    ...compared('the dry run changed', marksAsList(before), marksAsList(untouched)),
    ...compared('action', [predicted.action], [done.action]),
    ...compared('error', [predicted.error?.code ?? ''], [done.error?.code ?? '']),
    ...compared('changes', changesAsList(predicted), changesAsList(done)),
    ...compared(
      'deleted',
      listed('remove').filter((name) => before.has(name)),
      removed,
    ),
    ...compared('written', listed('add', 'change'), written),
    ...compared(
      'kept',
      listed('keep', 'refresh').filter((name) => !after.has(name)),
      [],
    ),
    ...counted(done),
  ];
}

function compared(what: string, expected: readonly string[], found: readonly string[]): string[] {
  const [a, b] = [[...expected].sort().join(' '), [...found].sort().join(' ')];
  return a === b ? [] : [`${what}: the dry run said "${a}", the run did "${b}"`];
}

/** The totals of a result match its list. */
function counted({ changes, outputsWritten, outputsKept, outputsRemoved }: ActionResult): string[] {
  if (changes.length === 0) return [];
  const count = (...fates: string[]): string =>
    `${changes.filter(({ fate }) => fates.includes(fate)).length}`;
  return [
    ...compared('outputs_written', [count('add', 'change')], [`${outputsWritten}`]),
    ...compared('outputs_kept', [count('keep', 'refresh')], [`${outputsKept}`]),
    ...compared('outputs_removed', [count('remove')], [`${outputsRemoved}`]),
  ];
}

function changesAsList({ changes }: ActionResult): string[] {
  return changes.map(({ path, fate, why }) => `${fate} ${path} ${why}`);
}

function marksAsList(marks: ReadonlyMap<string, string>): string[] {
  return [...marks].map(([name, mark]) => `${name}=${mark}`);
}

function memoryPlace(flavour: 'files' | 'objects'): Place & { release: () => void } {
  const disk: MemoryDisk = new Map();
  const prefix = `${bundlePath}/`;
  return {
    root: memoryStorage({ disk, flavour }),
    marks: () =>
      new Map(
        [...disk]
          .filter(([name]) => name.startsWith(prefix) && !name.startsWith(`${prefix}.publisher`))
          .map(([name, { version }]) => [name.slice(prefix.length), version]),
      ),
    release: () => disk.clear(),
  };
}
