import { writeFileSync } from 'node:fs';
import t from 'tap';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import type { UnreadableName } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

t.test('a view maps keys in both directions and sees nothing outside its directory', async (t) => {
  const whole = memoryStorage({ flavour: 'files' });
  await whole.write(key('a/x'), bytesBody('inside'), { mode: 'replace' });
  await whole.write(key('ab'), bytesBody('outside'), { mode: 'replace' });
  const view = subdirectory(whole, key('a'));
  const entries = [];
  for await (const entry of view.list('', { recursive: true })) entries.push(entry);
  t.match(entries, [{ key: 'x', type: 'file', size: 6 }]);
  t.same(await readAll(view, key('x'), 10), Buffer.from('inside'));
  await view.rename!([{ from: key('x'), to: key('y/z') }]);
  t.match(await whole.stat(key('a/y/z')), { type: 'file' });
  t.equal(await view.stat(key('ab')), undefined);
  t.equal(view.label, `${whole.label}, a`);
});

t.test("returns the local files of a view's directory", async (t) => {
  const local = await localStorage(t.testdir({ a: { b: { c: 'four' } } }));
  const files = subdirectory(local, key('a/b')).localFiles;
  t.equal(files?.sizeOf(key('c')), 4);
  t.equal(subdirectory(memoryStorage({ flavour: 'files' }), key('a/b')).localFiles, undefined);
});

t.test('reports unmappable names with their directory in the view', async (t) => {
  const place = t.testdir({ a: { sub: { x: 'x' } } });
  for (const directory of ['a', 'a/sub'])
    writeFileSync(Buffer.concat([Buffer.from(`${place}/${directory}/`), Buffer.from([0xe9])]), '');
  const view = subdirectory(await localStorage(place), key('a'));
  const unreadable: UnreadableName[] = [];
  const keys: string[] = [];
  const onUnreadable = (name: UnreadableName): void => void unreadable.push(name);
  for await (const entry of view.list('', { recursive: true, onUnreadable })) keys.push(entry.key);
  t.same(keys, ['sub/x']);
  const name = { reason: 'not_utf8', decoded: '\ufffd', escaped: String.raw`\xe9`, type: 'file' };
  t.same(unreadable, [
    { directory: '', ...name },
    { directory: 'sub', ...name },
  ]);
});

t.test('closing a view leaves the storage open', async (t) => {
  let closed = 0;
  const whole = delegate(memoryStorage({ flavour: 'files' as const }), {
    close: async () => void (closed += 1),
  });
  await subdirectory(whole, key('a')).close();
  await subdirectory(whole, '').close();
  t.equal(closed, 0);
});
