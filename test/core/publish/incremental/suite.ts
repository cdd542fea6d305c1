import { existsSync, lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import type { SourceBundle } from '../../../../src/core/bundle/source-bundle.ts';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import {
  bundleOf,
  bundlePath,
  catalogMismatches,
  contextWith,
  destinationOf,
  type Files,
  owner,
  put,
  snapshot,
  stateOf,
} from '../../../faults/world.ts';
import { howMany } from '../../../support/sampling.ts';

const many = howMany(5_000, 400);

/** A destination, with a way to detect that one of its files was written. */
export interface Place {
  storage: Storage;
  /**
   * Values that change if a file is written, even with the same bytes: inode and time, or a count of writes.
   */
  writtenMarks: () => Promise<ReadonlyMap<string, string>>;
  /** The number of objects written so far, including the state, if a server counts them. */
  writes?: () => number;
}

/** Tests of incremental publication that need a whole run, on a real destination. */
export function incrementalSuite(t: Test, name: string, open: (t: Test) => Promise<Place>): void {
  t.test(`${name}: one changed file of ${many} is written with its dependents, and no other`, async (t) => {
    const { storage, writtenMarks, writes } = await open(t);
    const files = manyFiles(many);
    t.match(await publish(storage, { files }), {
      action: 'publish_new',
      outputsWritten: many + 2,
      error: null,
    });
    const before = await writtenMarks();
    const first = await updatedAt(storage);
    const changed = { ...files, 'd7/f7.txt': 'something else' };
    const predicted = await publish(storage, { files: changed, dryRun: true });
    t.same(await writtenMarks(), before, 'the dry run wrote nothing');
    const writesBefore = writes?.() ?? 0;
    const done = await publish(storage, { files: changed });
    if (writes !== undefined) t.equal(writes() - writesBefore, 5, 'three outputs, and the state twice');
    t.match(done, { action: 'upsert_additive', outputsWritten: 3, outputsKept: many - 1, error: null });
    t.same(done.changes, predicted.changes, 'as in the dry run');
    const expected = ['SHA256SUMS', 'd7/f7.txt', 'index.html'];
    t.same(pathsOf(done, 'change'), expected);
    t.equal(done.bytesWritten, sizesOf(done, expected));
    const after = await writtenMarks();
    t.same(
      [...after]
        .filter(([path, mark]) => before.get(path) !== mark)
        .map(([path]) => path)
        .sort(),
      expected,
    );
    t.equal(after.size, before.size);
    t.ok((await updatedAt(storage)) > first, 'every record has the time of the publication');
    t.match(await publish(storage, { files: changed }), { action: 'skip_same', outputsKept: many + 2 });
    t.same(await writtenMarks(), after);
  });

  t.test(`${name}: rewrites files that were deleted or truncated by hand`, async (t) => {
    const { storage } = await open(t);
    const files = manyFiles(600);
    await publish(storage, { files });
    const inside = subdirectory(storage, listedKey(bundlePath));
    await inside.remove(listedKey('d1/f1.txt'));
    await put(inside, 'd2/f2.txt', 'cut');
    t.match(await publish(storage, { files }), { action: 'skip_same' }, 'one read, no checks of files');
    const changed = { ...files, 'd3/f3.txt': 'changed' };
    const predicted = await publish(storage, { files: changed, dryRun: true });
    const done = await publish(storage, { files: changed });
    t.same(
      done.changes.filter(({ path, fate }) => path.startsWith('d') && fate !== 'keep'),
      [
        { path: 'd1/f1.txt', fate: 'add', why: 'missing' },
        { path: 'd2/f2.txt', fate: 'change', why: 'size_differs' },
        { path: 'd3/f3.txt', fate: 'change', why: 'content_differs' },
      ],
    );
    t.same(done.changes, predicted.changes, 'as in the dry run');
    t.match(done, { outputsWritten: 5, outputsKept: 597, error: null });
    t.same(await catalogMismatches(storage), []);
    t.equal((await snapshot(inside)).get('d2/f2.txt'), files['d2/f2.txt']);
  });

  t.test(
    `${name}: another source or address updates records, and generates and writes nothing`,
    async (t) => {
      const { storage, writtenMarks } = await open(t);
      const files = manyFiles(20);
      await publish(storage, { files, archive: true });
      const before = await writtenMarks();
      let opened = 0;
      const moved = countingOpens({
        ...bundleOf(files),
        identity: { backend: 'local', id: '/moved', path: '.' },
      });
      const settings = { bundle: moved, archive: true, publicBaseUrl: 'https://example.org/' };
      const done = await publish(storage, { files, ...settings });
      t.match(done, {
        action: 'upsert_additive',
        outputsWritten: 0,
        outputsKept: 23,
        bytesWritten: 0,
        error: null,
      });
      t.equal(pathsOf(done, 'refresh').length, 23);
      t.equal(opened, 0, 'no file of the bundle was opened, so no archive was created');
      t.same(await writtenMarks(), before);
      const state = await stateOf(storage);
      const record =
        state.kind === 'valid' ? state.catalog.outputs.find(({ path }) => path === 'd1/f1.txt') : null;
      t.match(record, { source: { id: '/moved' }, url: 'https://example.org/bundle/d1/f1.txt' });
      t.match(await publish(storage, { files, ...settings }), { action: 'skip_same' });

      function countingOpens(bundle: SourceBundle): SourceBundle {
        const counted = bundle.files.map((file) => ({
          ...file,
          body: {
            size: file.size,
            open: () => {
              opened += 1;
              return file.body.open();
            },
          },
        }));
        return { ...bundle, manifestFile: bundleWithManifest(bundle).manifestFile, files: counted };
      }
    },
  );

  t.test(`${name}: rewrites changed headers only if the storage keeps them`, async (t) => {
    const { storage, writtenMarks } = await open(t);
    const files = manyFiles(20);
    await publish(storage, { files });
    const before = await writtenMarks();
    const done = await publish(storage, { files, cacheControl: 'no-store' });
    const written = storage.facts.keepsHeaders ? 22 : 0;
    t.match(done, { outputsWritten: written, outputsKept: 22 - written, error: null });
    t.same([...new Set(done.changes.map(({ why }) => why))], ['headers_differ']);
    const after = await writtenMarks();
    t.equal([...after].filter(([path, mark]) => before.get(path) !== mark).length, written);
    t.match(await publish(storage, { files, cacheControl: 'no-store' }), { action: 'skip_same' });
  });
}

/** Inode and time of every published file below a local directory. */
export function marksBelow(root: string): ReadonlyMap<string, string> {
  const bundle = path.join(root, bundlePath);
  const marks = new Map<string, string>();
  if (!existsSync(bundle)) return marks;
  for (const name of readdirSync(bundle, { recursive: true, encoding: 'utf8' })) {
    const found = lstatSync(path.join(bundle, name), { bigint: true });
    if (found.isFile() && !name.startsWith('.publisher')) marks.set(name, `${found.ino} ${found.mtimeNs}`);
  }
  return marks;
}

export function manyFiles(count: number): Files {
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`d${index % 50}/f${index}.txt`, `file ${index}`]),
  );
}

interface Publication {
  files: Files;
  bundle?: SourceBundle;
  dryRun?: boolean;
  archive?: boolean;
  publicBaseUrl?: string;
  cacheControl?: string;
}

/** With a list of checksums and an index, which depend on every file. */
export async function publish(storage: Storage, publication: Publication): Promise<ActionResult> {
  const {
    files,
    bundle = bundleWithManifest(bundleOf(files)),
    dryRun = false,
    archive = false,
  } = publication;
  const destination: DestinationConfig = {
    ...destinationOf('additive'),
    outputs: { checksums: true, index: true, archive, sceneMapPage: false },
    publicBaseUrl: publication.publicBaseUrl ?? null,
    cacheControl: publication.cacheControl ?? null,
    fileConcurrency: 16,
  };
  return publishBundle(
    contextWith(systemClock),
    storage,
    { bundle, owner, destination, destinationPath: bundlePath },
    { dryRun, force: false },
  );
}

function bundleWithManifest(bundle: SourceBundle): SourceBundle {
  return { ...bundle, manifestFile: { digest: digestOf('{}'), body: bytesBody('{}') } };
}

function pathsOf({ changes }: ActionResult, wanted: string): string[] {
  return changes.filter(({ fate }) => fate === wanted).map(({ path }) => path);
}

function sizesOf({ outputs }: ActionResult, paths: readonly string[]): number {
  return outputs.reduce((sum, { path, size }) => sum + (paths.includes(path) ? size : 0), 0);
}

/** The time that all records share. */
async function updatedAt(storage: Storage): Promise<string> {
  const state = await stateOf(storage);
  const times = new Set(
    state.kind === 'valid' ? state.catalog.outputs.map((record) => record.updatedAt) : [],
  );
  return times.size === 1 ? ([...times][0] ?? '') : 'several times';
}
