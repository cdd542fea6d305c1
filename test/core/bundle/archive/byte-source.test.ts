import t from 'tap';
import { byteSource } from '../../../../src/core/bundle/archive/tar-reader.ts';

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

t.test('reads across chunks, including empty ones, and returns fewer bytes only at the end', async (t) => {
  const source = byteSource(chunks('ab', '', 'cde', 'f'));
  t.equal(String(await source.take(1)), 'a');
  t.equal(String(await source.take(3)), 'bcd');
  t.equal(String(await source.next()), 'e');
  t.equal(String(await source.take(9)), 'f');
  t.equal(await source.next(), null);
});

t.test('slices and skips that the stream cannot fill throw malformed_archive', async (t) => {
  const source = byteSource(chunks('ab', 'c'));
  const pieces: string[] = [];
  await t.rejects(
    async () => {
      for await (const piece of source.slices(4)) pieces.push(String(piece));
    },
    { code: 'malformed_archive' },
  );
  t.same(pieces, ['ab', 'c']);
  await t.rejects(source.skip(1), { code: 'malformed_archive' });
  t.equal(await byteSource(chunks('abc')).skip(2), 2);
});

t.test('close closes the input', async (t) => {
  let isClosed = false;
  async function* input(): AsyncGenerator<Uint8Array> {
    try {
      yield Buffer.from('a');
      yield Buffer.from('b');
    } finally {
      isClosed = true;
    }
  }
  const source = byteSource(input());
  await source.take(1);
  await source.close();
  t.ok(isClosed);
  const next = async () => ({ done: true, value: undefined }) as const;
  await byteSource({ [Symbol.asyncIterator]: () => ({ next }) }).close();
});
