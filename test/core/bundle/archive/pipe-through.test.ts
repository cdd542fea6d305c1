import { PassThrough, Transform } from 'node:stream';
import t from 'tap';
import { pipeThrough } from '../../../../src/core/bundle/archive/gzip.ts';

async function* bytes(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function textOf(output: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of output) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

t.test('returns the output of the transform', async (t) => {
  const upper = new Transform({
    transform: (chunk, _, done) => done(null, String(chunk).toUpperCase()),
  });
  t.equal(await textOf(pipeThrough(bytes('ab', 'c'), upper)), 'ABC');
});

t.test('a failure on either side is thrown once, and both sides are closed', async (t) => {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', onUnhandled);
  t.teardown(() => process.off('unhandledRejection', onUnhandled));
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('a');
    throw new Error('the input failed');
  }
  const transform = new PassThrough();
  await t.rejects(textOf(pipeThrough(failing(), transform)), { message: 'the input failed' });
  t.ok(transform.destroyed);
  let isClosed = false;
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield Buffer.from('a');
    } finally {
      isClosed = true;
    }
  }
  const broken = new Transform({ transform: (_, __, done) => done(new Error('the transform failed')) });
  await t.rejects(textOf(pipeThrough(endless(), broken)), { message: 'the transform failed' });
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(isClosed);
  t.same(unhandled, []);
});
