import t from 'tap';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { findObstacles } from '../../../../src/core/publish/decision/observe.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { put } from '../../../faults/world.ts';
import { type MemoryOptions, memoryStorage } from '../../../support/memory-storage.ts';

interface Case {
  files?: string[];
  links?: string[];
  recorded?: string[];
  flavour?: MemoryOptions['flavour'];
}

async function inTheWayOf(
  planned: string[],
  { files = [], links = [], recorded = [], flavour = 'files' }: Case,
): Promise<unknown[]> {
  const storage = memoryStorage({ flavour });
  for (const name of files) await put(storage, name, 'x');
  for (const name of links) await storage.replaceLink!(listedKey(name), listedKey('elsewhere'));
  const look: typeof storage = {
    ...storage,
    list(directory, options) {
      if (files.includes(directory)) throw new Error(`a file is not a directory: ${directory}`);
      return storage.list(directory, options);
    },
  };
  return [...(await findObstacles(look, planned as RelativePath[], new Set(recorded)))];
}

t.test('reports a non-directory as an obstacle of the files in it, unless it is recorded', async (t) => {
  t.same(await inTheWayOf(['d/e/f'], {}), []);
  t.same(await inTheWayOf(['d/e/f'], { files: ['d/e/other'] }), []);
  t.same(await inTheWayOf(['d/e/f', 'd/e/g'], { files: ['d/e'] }), [['d/e', 'file']]);
  t.same(await inTheWayOf(['d/e/f'], { links: ['d'] }), [['d', 'link']]);
  t.same(await inTheWayOf(['d/e/f'], { files: ['d'], recorded: ['d'] }), []);
});

t.test('a directory blocks a recorded file if it has an unrecorded entry', async (t) => {
  const recorded = ['a', 'a/b/c'];
  t.same(await inTheWayOf(['a'], { files: ['a/b/c', 'a/b/d'], recorded }), [['a', 'directory']]);
  t.same(await inTheWayOf(['a'], { files: ['a/b/c'], recorded }), []);
  t.same(await inTheWayOf(['a'], { files: ['a'], recorded }), []);
  t.same(await inTheWayOf(['a'], { recorded }), []);
  t.same(
    await inTheWayOf(['a'], { files: ['a/b/d'] }),
    [],
    'at an unrecorded path, it is reported as existing',
  );
});

t.test('an object store has no directories that could block a file', async (t) => {
  const taken = { files: ['d', 'a/foreign'], recorded: ['a'] };
  t.same(await inTheWayOf(['d/e', 'a'], taken), [
    ['d', 'file'],
    ['a', 'directory'],
  ]);
  t.same(await inTheWayOf(['d/e', 'a'], { ...taken, flavour: 'objects' }), []);
});
