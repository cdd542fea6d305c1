import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { decompress } from '../../../../src/core/bundle/archive/gzip.ts';

async function* oneByOne(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (const byte of bytes) yield Uint8Array.of(byte);
}

async function all(bytes: Uint8Array): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of decompress(oneByOne(bytes))) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

t.test('recognizes gzip by its first bytes, and passes on everything else unchanged', async (t) => {
  t.equal(await all(gzipSync('hello')), 'hello');
  t.equal(await all(Buffer.from('hello')), 'hello');
  t.equal(await all(Buffer.from('h')), 'h');
  t.equal(await all(Buffer.alloc(0)), '');
  for await (const chunk of decompress(oneByOne(Buffer.alloc(0)))) t.fail(`${chunk.length} empty bytes`);
});

t.test('a tar archive may begin with a file whose name resembles another format', async (t) => {
  for (const name of ['PKGBUILD', 'PK', 'BZh', 'BZh9.txt', '7zXZ'])
    t.equal(await all(Buffer.from(name)), name);
  for (const start of ['PK\x03\x04', 'PK\x05\x06', 'BZh91AY&SY'])
    await t.rejects(all(Buffer.from(start, 'latin1')), { code: 'malformed_archive' });
});

const mebibyte = 2 ** 20;

async function sizeOf(bytes: Uint8Array): Promise<number> {
  let size = 0;
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 4096) yield bytes.subarray(at, at + 4096);
  }
  for await (const chunk of decompress(pieces())) size += chunk.byteLength;
  return size;
}

t.test('gzip data may expand without limit to 16 MiB, and by a factor of 200 above', async (t) => {
  const zeros = Buffer.alloc(17 * mebibyte);
  const noise = randomBytes(120_000);
  t.equal(await sizeOf(gzipSync(zeros.subarray(mebibyte))), 16 * mebibyte);
  t.equal(await sizeOf(gzipSync(Buffer.concat([noise, zeros]))), 17 * mebibyte + noise.length);
  await t.rejects(sizeOf(gzipSync(zeros)), { code: 'archive_bomb' });
});

t.test('distinguishes each kind of invalid gzip data', async (t) => {
  const whole = gzipSync('hello hello hello');
  const follows = { code: 'malformed_archive', message: /is followed by other bytes/ };
  const damaged = { code: 'malformed_archive', message: /is damaged or cut short/ };
  for (const [what, bytes, expected] of [
    ['cut', whole.subarray(0, -1), damaged],
    ['damaged', Buffer.concat([whole.subarray(0, 12), Buffer.alloc(30, 0xff)]), damaged],
    ['a byte more', Buffer.concat([whole, Buffer.from('x')]), damaged],
    ['a zero more', Buffer.concat([whole, Buffer.alloc(1)]), follows],
    ['more that begins like gzip', Buffer.concat([whole, Buffer.from([0x1f, 0x8b, 0xff, 0, 0])]), damaged],
    ['zeros, as tar pads with', Buffer.concat([whole, Buffer.alloc(10_240)]), follows],
  ] as const) {
    await t.rejects(all(bytes), expected, `${what}, byte by byte`);
    await t.rejects(sizeOf(bytes), expected, what);
  }
});

t.test("closes the input when the reader stops, and throws the input's own error", async (t) => {
  for (const [what, bytes] of [
    ['plain', Buffer.alloc(100_000, 'x')],
    ['compressed', gzipSync(randomBytes(100_000))],
  ] as const) {
    let isClosed = false;
    async function* input(): AsyncGenerator<Uint8Array> {
      try {
        for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
      } finally {
        isClosed = true;
      }
    }
    for await (const chunk of decompress(input())) if (chunk.length > 0) break;
    await new Promise((resolve) => setImmediate(resolve));
    t.ok(isClosed, what);
    const reset = new Error('read ECONNRESET');
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, 50_000);
      throw reset;
    }
    const reading = async (): Promise<void> => {
      for await (const chunk of decompress(failing())) t.ok(chunk);
    };
    t.equal(await reading().catch((error: unknown) => error), reset, what);
    let isGiven = false;
    const next = async () => {
      const done = isGiven;
      isGiven = true;
      return done ? ({ done, value: undefined } as const) : { done, value: bytes };
    };
    let size = 0;
    for await (const chunk of decompress({ [Symbol.asyncIterator]: () => ({ next }) })) size += chunk.length;
    t.equal(size, 100_000, `${what}, from an iterator that cannot be closed`);
  }
});

t.test('damaged, truncated and extended gzip data, and other formats, throw malformed_archive', async (t) => {
  const whole = gzipSync('hello hello hello');
  for (let length = 2; length < whole.length; length += 1)
    await t.rejects(all(whole.subarray(0, length)), { code: 'malformed_archive' }, `truncated at ${length}`);
  await t.rejects(all(Buffer.concat([whole, Buffer.from('x')])), { code: 'malformed_archive' });
  const damaged = Buffer.from(whole);
  damaged[whole.length - 6]! ^= 1;
  await t.rejects(all(damaged), { code: 'malformed_archive' });
  await t.rejects(all(Buffer.from([0x50, 0x4b, 3, 4])), { message: /ZIP/ });
});

t.test('closes the input of another format', async (t) => {
  let isClosed = false;
  async function* input(): AsyncGenerator<Uint8Array> {
    try {
      for (let count = 0; count < 100; count += 1) yield Buffer.from([0x50, 0x4b, 3, 4, 0, 0, 0, 0]);
    } finally {
      isClosed = true;
    }
  }
  const read = async (): Promise<void> => {
    for await (const chunk of decompress(input())) t.fail(`${chunk.length} bytes`);
  };
  await t.rejects(read(), { code: 'malformed_archive', message: /ZIP/ });
  t.ok(isClosed);
});
