import { gzipSync } from 'node:zlib';
import t from 'tap';
import { decompress } from '../../../src/core/archive/decompress.ts';

async function* oneByOne(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (const byte of bytes) yield Uint8Array.of(byte);
}

async function all(bytes: Uint8Array): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of decompress(oneByOne(bytes))) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

t.test('gzip is recognised by its first bytes, and everything else passes as it is', async (t) => {
  t.equal(await all(gzipSync('hello')), 'hello');
  t.equal(await all(Buffer.from('hello')), 'hello');
  t.equal(await all(Buffer.from('h')), 'h');
  t.equal(await all(Buffer.alloc(0)), '');
});

t.test('damaged, cut and extended gzip data, and other formats, throw malformed_archive', async (t) => {
  const whole = gzipSync('hello hello hello');
  for (let length = 2; length < whole.length; length += 1)
    await t.rejects(all(whole.subarray(0, length)), { code: 'malformed_archive' }, `cut at ${length}`);
  await t.rejects(all(Buffer.concat([whole, Buffer.from('x')])), { code: 'malformed_archive' });
  const damaged = Buffer.from(whole);
  damaged[whole.length - 6]! ^= 1;
  await t.rejects(all(damaged), { code: 'malformed_archive' });
  await t.rejects(all(Buffer.from([0x50, 0x4b, 3, 4])), { message: /ZIP/ });
});
