import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { refuseObstructed, removeEmptyDirectories } from '../../../../src/core/publish/apply/apply.ts';
import { inVisibleOrder } from '../../../../src/core/publish/apply/staged-layout.ts';
import type { PlannedOutput } from '../../../../src/core/publish/plan.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import type { Change, Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { publishTo, put } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** The steps of an attempt that are separate functions. */

t.test('removes unmanaged empty directories at any depth in a forced replacement', async (t) => {
  const root = t.testdir({ bundle: { stray: 'x', 'only-empty': {} }, beside: {} });
  mkdirSync(path.join(root, 'bundle/a/b/c'), { recursive: true });
  mkdirSync(path.join(root, 'bundle/kept/empty'), { recursive: true });
  const storage = await localStorage(root);
  const files = { 'kept/file': 'k', 'x.txt': 'x' };
  t.match(await publishTo(storage, { files, force: true }), { action: 'force_replace', error: null });
  t.same(readdirSync(path.join(root, 'bundle')).sort(), ['.publisher.json', 'kept', 'x.txt']);
  t.same(readdirSync(path.join(root, 'bundle/kept')), ['file']);
  t.ok(existsSync(path.join(root, 'beside')), 'adjacent files stay unchanged');
});

t.test('without force, empty directories stay', async (t) => {
  const root = t.testdir({ bundle: { empty: {} } });
  await publishTo(await localStorage(root), { files: { 'x.txt': 'x' } });
  t.ok(existsSync(path.join(root, 'bundle/empty')));
});

t.test('the bundle path itself stays, even if it is empty', async (t) => {
  const removed: string[] = [];
  for (const flavour of ['files', 'objects'] as const) {
    const storage: Storage = delegate(memoryStorage({ flavour }), {
      async *list(directory) {
        if (flavour === 'objects') t.fail('object stores have no directories');
        if (directory === '') yield { key: listedKey('a'), type: 'directory', size: 0 };
      },
      removeTree: async (directory) => void removed.push(directory),
    });
    await removeEmptyDirectories(storage);
  }
  t.same(removed, ['a']);
});

const sized = (path: string, size: number) => ({ path, size }) as PlannedOutput;

t.test('checks obstacles and free space before any write', async (t) => {
  const asked: Change[] = [];
  const obstacle = new WaybillError('storage_denied', 'for the test');
  for (const flavour of ['files', 'objects'] as const) {
    const inner = memoryStorage({ flavour });
    const storage: Storage = delegate(inner, {
      async obstacleTo(change) {
        asked.push(change);
        return null;
      },
    });
    const plan = {
      writes: [sized('a', 10), sized('gone/b', 20), sized('other/c', 30)],
      removes: [listedKey('gone'), listedKey('x')],
    };
    const change = { writes: ['a', 'other/c'], removes: ['gone', 'x'], from: '' };
    const bytesSeen = async (isUnderLease: boolean): Promise<number | null | undefined> => {
      asked.length = 0;
      await refuseObstructed(storage, plan, { stateBytes: 5, isUnderLease });
      t.match(asked, [change], 'files that the plan removes are not obstacles');
      return asked[0]?.bytes;
    };
    t.equal(await bytesSeen(true), 65);
    t.equal(await bytesSeen(false), 65);
    await put(inner, '.publisher.tmp/dead/output-0', 'x');
    t.equal(await bytesSeen(true), 65, 'under the lease, it is our own staging');
    t.equal(
      await bytesSeen(false),
      flavour === 'files' ? null : 65,
      'files of a dead attempt are swept first',
    );
    const blocked = delegate(storage, { obstacleTo: async () => obstacle });
    await t.rejects(refuseObstructed(blocked, plan, { stateBytes: 0, isUnderLease: true }), obstacle);
  }
});

t.test('links to a page are published after the assets of the page', async (t) => {
  const output = (path: string, contentType: string | null = null, generator: string | null = null) => ({
    path: path as PlannedOutput['path'],
    generated: {
      contentType,
      cacheControl: null,
      generator: generator === null ? null : { name: generator, version: 1, inputs: digestOf('') },
    },
  });
  const leading = [
    output('a', 'text/html'),
    output('b', 'Text/HTML ; charset=utf-8'),
    output('c', 'application/xhtml+xml'),
    output('d', 'application/rss+xml;x=y'),
    output('e', 'application/atom+xml'),
    output('f', 'application/feed+json'),
    output('g', 'text/plain', 'index'),
    output('h', null, 'checksums'),
    output('feed.xml', 'application/xml'),
    output('d/RSS.xml'),
    output('atom-2026.json'),
    output('d/e/sitemap_1.xml'),
    output('index.json', 'application/json'),
  ];
  const assets = [
    output('a.html'),
    output('b.css', 'text/css'),
    output('c.html', 'text/htmlx'),
    output('d', 'x/text/html'),
    output('e', 'text/plain', 'archive'),
    output('newsfeed.xml'),
    output('feed.xml.gz'),
    output('feed/a.xml'),
    output('feed'),
    output('index.html'),
  ];
  for (const one of leading) t.same(inVisibleOrder([...assets, one]), [assets, [one]], one.path);
  t.same(inVisibleOrder([...leading, ...assets]), [assets, leading]);
  t.same(inVisibleOrder(leading), [leading], 'no group is empty');
  t.same(inVisibleOrder([]), []);
});
