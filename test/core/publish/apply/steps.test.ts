import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { localStorage } from '../../../../src/core/storage/local/driver.ts';
import { publishTo } from '../../../faults/world.ts';

t.test('a forced replacement removes empty directories that nobody manages, at any depth', async (t) => {
  const root = t.testdir({ bundle: { stray: 'x', 'only-empty': {} }, beside: {} });
  mkdirSync(path.join(root, 'bundle/a/b/c'), { recursive: true });
  mkdirSync(path.join(root, 'bundle/kept/empty'), { recursive: true });
  const storage = await localStorage(root);
  const files = { 'kept/file': 'k', 'x.txt': 'x' };
  t.match(await publishTo(storage, { files, force: true }), { action: 'force_replace', error: null });
  t.same(readdirSync(path.join(root, 'bundle')).sort(), ['.publisher.json', 'kept', 'x.txt']);
  t.same(readdirSync(path.join(root, 'bundle/kept')), ['file']);
  t.ok(existsSync(path.join(root, 'beside')), 'what lies beside is not touched');
});

t.test('without force, empty directories stay', async (t) => {
  const root = t.testdir({ bundle: { empty: {} } });
  await publishTo(await localStorage(root), { files: { 'x.txt': 'x' } });
  t.ok(existsSync(path.join(root, 'bundle/empty')));
});
