import t from 'tap';
import {
  layOutStaging,
  missingDirectories,
  type StagedLayout,
} from '../../../../src/core/publish/apply/staged-layout.ts';
import type { PlannedOutput } from '../../../../src/core/publish/plan.ts';
import { put } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const output = (path: string): PlannedOutput =>
  ({
    path,
    generated: { contentType: path.endsWith('.html') ? 'text/html' : null, generator: null },
  }) as PlannedOutput;

/** For each group, `from → to`, with a slash after a directory that moves whole. */
function movesIn(layout: StagedLayout<PlannedOutput>): string[][] {
  return layout.groups.map((group) =>
    Array.from(
      layout.movesOf(group),
      ({ from, to, isDirectory }) => `${from} → ${to}${isDirectory ? '/' : ''}`,
    ),
  );
}

t.test('a missing directory moves whole, with everything below it', (t) => {
  const paths = ['a/one', 'a/b/two', 'c/three', 'there/four', 'there/new/five', 'top'];
  const layout = layOutStaging(paths.map(output), new Set(['a', 'c', 'there/new']));
  t.same(
    paths.map((_, index) => layout.stagedName(index)),
    ['tree-0/one', 'tree-0/b/two', 'tree-1/three', 'output-3', 'tree-2/five', 'output-5'],
  );
  t.same(movesIn(layout), [
    ['tree-0 → a/', 'tree-1 → c/', 'output-3 → there/four', 'tree-2 → there/new/', 'output-5 → top'],
  ]);
  t.end();
});

t.test('if no directory is missing, every output moves separately', (t) => {
  const layout = layOutStaging(['a/one', 'a/two'].map(output), new Set());
  t.same(movesIn(layout), [['output-0 → a/one', 'output-1 → a/two']]);
  t.end();
});

t.test('a directory with assets and pages is split, so that pages come after all assets', (t) => {
  const paths = ['x/app.js', 'x/img/one.png', 'x/page.html', 'x/sub/other.html', 'y/late.css', 'z/only.html'];
  const layout = layOutStaging(paths.map(output), new Set(['x', 'y', 'z']));
  t.same(movesIn(layout), [
    ['output-0 → x/app.js', 'tree-0 → x/img/', 'tree-2 → y/'],
    ['output-2 → x/page.html', 'tree-1 → x/sub/', 'tree-3 → z/'],
  ]);
  t.end();
});

t.test('a group that is moved in parts moves each directory once', (t) => {
  const outputs = ['a/one', 'a/two', 'a/three'].map(output);
  const layout = layOutStaging(outputs, new Set(['a']));
  const moves = [outputs.slice(0, 1), outputs.slice(1)].map((some) => [...layout.movesOf(some)].length);
  t.same(moves, [1, 0]);
  t.end();
});

t.test('checks only for the uppermost missing directories, each once', async (t) => {
  const storage = memoryStorage({ flavour: 'files' });
  await put(storage, 'there/deep/file', 'x');
  await put(storage, 'file', 'x');
  const asked: string[] = [];
  const look = {
    stat: async (key: Parameters<typeof storage.stat>[0]) => {
      asked.push(key);
      return storage.stat(key);
    },
  };
  const paths = ['new/a/b/one', 'new/two', 'there/deep/three', 'there/deep/er/four', 'there/x/five', 'six'];
  const missing = await missingDirectories(look, [...paths, 'file/seven'].map(output));
  t.same([...missing].sort(), ['new', 'there/deep/er', 'there/x']);
  t.same(asked.sort(), ['file', 'new', 'there', 'there/deep', 'there/deep/er', 'there/x']);
});
