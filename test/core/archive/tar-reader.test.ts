import t from 'tap';
import { readTar } from '../../../src/core/archive/tar-reader.ts';
import { inChunks, tar } from '../../fixtures/tar.ts';

t.test('bytes that the consumer leaves unread are passed over', async (t) => {
  const archive = tar(
    { path: 'a', body: 'a'.repeat(2000) },
    { path: 'b', body: 'b'.repeat(2000) },
    { path: 'c' },
  );
  for (const chunk of [100, 65_536]) {
    const seen: string[] = [];
    for await (const entry of readTar(inChunks(archive, chunk))) {
      seen.push(entry.name);
      if (entry.name === 'b') continue;
      for await (const piece of entry.read()) {
        seen.push(piece.toString('latin1', 0, 1));
        break;
      }
    }
    t.same(seen, ['a', 'a', 'b', 'c']);
  }
});

t.test('a name whose letters straddle chunks is read right', async (t) => {
  const archive = tar({ path: 'x/öäü€😀.txt' });
  for (let size = 1; size < 40; size += 1)
    for await (const { name } of readTar(inChunks(archive, size))) t.equal(name, 'x/öäü€😀.txt');
});
