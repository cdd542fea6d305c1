import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { Gzip } from 'fflate';

const pieceBytes = 1 << 16;

/**
 * Compresses to gzip deterministically: the output depends only on the input, not on the Node.js release, the
 * processor or the chunk sizes. Node's zlib is not used because its output changes between releases. All
 * options are set, because the library's defaults depend on the input's length. Streams with a few megabytes
 * of memory, and yields to the event loop after each piece.
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
    await yieldToEventLoop();
  }
  engine.push(new Uint8Array(0), true);
  yield* taken();
}

/**
 * Cuts the input into pieces of one size, because the output of a compressor may depend on the size of its
 * input calls. Each piece is overwritten by the next one.
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
