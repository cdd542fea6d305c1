import { randomBytes } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { gzip } from '../../../../src/core/bundle/archive/gzip.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';

async function* inChunks(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function packed(bytes: Buffer, size = 65_536): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of gzip(inChunks(bytes, size))) chunks.push(Uint8Array.from(chunk));
  return chunks;
}

/** Compressible text without repeated pieces. */
function textOf(length: number): Buffer {
  return Buffer.from(Array.from({ length: length / 5 + 1 }, (_, index) => index % 9973).join(' ')).subarray(
    0,
    length,
  );
}

t.test('restores compressed data of any length', async (t) => {
  for (const length of [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000])
    for (const bytes of [textOf(length), randomBytes(length)]) {
      const chunks = await packed(bytes);
      t.ok(gunzipSync(Buffer.concat(chunks)).equals(bytes), `${length} bytes`);
      t.ok(
        chunks.every(({ byteLength }) => byteLength > 0),
        'no chunk is empty',
      );
    }
});

t.test('the chunks of the input do not change the archive', async (t) => {
  const bytes = textOf(150_000);
  const whole = Buffer.concat(await packed(bytes));
  for (const size of [999, 65_535, 65_537, 150_000])
    t.ok(Buffer.concat(await packed(bytes, size)).equals(whole), `chunks of ${size} bytes`);
  t.equal(
    digestOf(Buffer.concat(await packed(Buffer.from('waybill '.repeat(20_000))))),
    'sha256:d6e5b683ebb3f98f2b9cd7e2c7d3f759cdd9c3eab43bc186692c4ed6a556a967',
    'the same on every machine and release',
  );
  t.equal(whole.readUInt32LE(4), 0, 'it has no time');
});

t.test('other work runs after each piece', async (t) => {
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  await packed(textOf(10 * 65_536));
  isDone = true;
  t.ok(turns >= 10, `${turns} turns`);
});
