import { setImmediate as breathe } from 'node:timers/promises';
import { Gzip } from 'fflate';

const pieceBytes = 1 << 16;

/**
 * The bytes as gzip: the same ones for the same input on every Node.js and processor, however the input is
 * cut into chunks. Not Node's zlib, whose output is another one with most of its releases: two machines would
 * make two archives of one bundle. Every option is set, since what the library would choose itself goes by
 * the input's length. Streams, in a few megabytes. Other threads of the event loop get their turn after each
 * piece.
 */
export async function* gzip(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let made: Uint8Array[] = [];
  const engine = new Gzip({ level: 6, mem: 8, mtime: 0 }, (bytes) => void made.push(bytes));
  const taken = (): Uint8Array[] => {
    const bytes = made;
    made = [];
    return bytes;
  };
  for await (const piece of inPieces(chunks)) {
    engine.push(piece, false);
    yield* taken();
    await breathe();
  }
  engine.push(new Uint8Array(0), true);
  yield* taken();
}

/**
 * Pieces of one size, whatever sizes the source delivers in: the bytes that come out of a compressor may
 * depend on those that go in at once. Each piece is overwritten by the next.
 */
async function* inPieces(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const piece = new Uint8Array(pieceBytes);
  let used = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.byteLength;) {
      const count = Math.min(pieceBytes - used, chunk.byteLength - at);
      piece.set(chunk.subarray(at, at + count), used);
      used += count;
      at += count;
      if (used < pieceBytes) continue;
      yield piece;
      used = 0;
    }
  }
  if (used > 0) yield piece.subarray(0, used);
}
