import t from 'tap';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { readBody } from '../../../src/core/storage/body.ts';
import type { Body } from '../../../src/core/storage/storage.ts';

function body(size: number, ...chunks: Buffer[]): Body {
  return {
    size,
    async *open() {
      yield* chunks;
    },
  };
}

t.test('returns a body of one chunk without a copy, and joins several chunks', async (t) => {
  const only = Buffer.from('ab');
  const one = await readBody('x', body(2, only), { mode: 'replace' });
  t.equal(one.bytes, only);
  const sizes: number[] = [];
  const two = await readBody('x', body(3, only, Buffer.from('c')), {
    mode: 'replace',
    digest: digestOf('abc'),
    onBytes: (count) => sizes.push(count),
  });
  t.same(two, { bytes: Buffer.from('abc'), size: 3, digest: digestOf('abc') });
  t.same(sizes, [2, 1]);
});

t.test('rejects a body that is shorter, longer or different', async (t) => {
  const mismatch = { code: 'body_mismatch', message: /^"x"/ };
  await t.rejects(readBody('x', body(3, Buffer.from('ab')), { mode: 'replace' }), mismatch);
  await t.rejects(readBody('x', body(1, Buffer.from('ab')), { mode: 'replace' }), mismatch);
  const digest = digestOf('other');
  await t.rejects(readBody('x', body(2, Buffer.from('ab')), { mode: 'replace', digest }), mismatch);
});

t.test('an aborted signal ends the read', async (t) => {
  const reason = new Error('stop');
  const signal = AbortSignal.abort(reason);
  await t.rejects(readBody('x', body(2, Buffer.from('ab')), { mode: 'replace', signal }), reason);
});
