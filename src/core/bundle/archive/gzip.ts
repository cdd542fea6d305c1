import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { createGunzip } from 'node:zlib';
import { Gzip } from 'fflate';
import { errorMessage, WaybillError } from '../../lib/errors.ts';

/**
 * The expansion ratio is checked only after this many bytes, since any archive may begin with data that
 * compresses well.
 */
export const ratioMattersAfter = 16 * 2 ** 20;
export const maxExpansion = 200;
const sniffedBytes = 6;
/**
 * How much output to request from zlib at a time. Each call takes a round trip through the thread pool and a
 * message to the disk thread. With the default of 16 KiB, a bundle of 1 GiB takes 1.5 times as long. Larger
 * values hardly help and need more memory.
 */
const pieceBytes = 1 << 16;

/**
 * The first bytes of other formats, as latin1. A tar archive begins with the name of a file, such as
 * `PKGBUILD`, so letters alone are not enough.
 */
const otherFormats: [magic: RegExp, name: string][] = [
  [/^PK(?:\x03\x04|\x05\x06|\x07\x08)/, 'a ZIP file'],
  [/^\x28\xb5\x2f\xfd/, 'compressed with zstd'],
  [/^BZh[1-9](?:1A|\x17\x72)/, 'compressed with bzip2'],
  [/^\xfd7zXZ\x00/, 'compressed with xz'],
];

/**
 * Streams a tar archive, decompressing it first if it is gzip data. Throws `malformed_archive` if the gzip
 * data is damaged, truncated or followed by anything else, and `archive_bomb` if it expands by more than 200
 * : 1 after the first 16 MiB.
 */
export async function* decompress(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const source = input[Symbol.asyncIterator]();
  const start: Uint8Array[] = [];
  for (let size = 0; size < sniffedBytes;) {
    const step = await source.next();
    if (step.done === true) break;
    start.push(step.value);
    size += step.value.byteLength;
  }
  const head = Buffer.concat(start);
  const whole = resume(head, source);
  if (head[0] === 0x1f && head[1] === 0x8b) yield* gunzip(whole);
  else yield* whole;
}

async function* gunzip(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const engine = createGunzip({ chunkSize: pieceBytes });
  let fed = 0;
  let expanded = 0;
  let failure: { error: unknown } | null = null;
  async function* counted(): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of input) {
        fed += chunk.byteLength;
        yield chunk;
      }
    } catch (error) {
      failure = { error };
      throw error;
    }
  }
  try {
    for await (const chunk of pipeThrough(counted(), engine)) {
      expanded += chunk.byteLength;
      if (expanded > ratioMattersAfter && expanded > fed * maxExpansion) throw expansionError();
      yield chunk;
    }
  } catch (error) {
    if (error instanceof WaybillError) throw error;
    const readFailure = failure as { error: unknown } | null;
    if (readFailure !== null) throw readFailure.error;
    // The engine ends with the gzip data. If there is an error after that, it comes from trailing bytes.
    throw engine.readableEnded ? trailing(error) : damaged(error);
  }
  if (engine.bytesWritten < fed) throw trailing();
}

/** Streams `head` and then `rest`, unless `head` shows another format. Closes `rest` in any case. */
async function* resume(head: Buffer, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    refuseOtherFormats(head);
    if (head.byteLength > 0) yield head;
    for (let step = await rest.next(); step.done !== true; step = await rest.next()) yield step.value;
  } finally {
    await rest.return?.();
  }
}

function refuseOtherFormats(head: Buffer): void {
  const start = head.toString('latin1', 0, sniffedBytes);
  const other = otherFormats.find(([magic]) => magic.test(start));
  if (other === undefined) return;
  throw new WaybillError('malformed_archive', `the upload is ${other[1]}, not a tar archive`, {
    hint: 'send a tar or a tar.gz',
  });
}

function damaged(cause: unknown): WaybillError {
  const detail = errorMessage(cause);
  return new WaybillError('malformed_archive', `the gzip data is damaged or cut short (${detail})`, {
    cause,
    hint: 'upload it again',
  });
}

function trailing(cause?: unknown): WaybillError {
  return new WaybillError('malformed_archive', 'the gzip data is followed by other bytes', {
    cause,
    hint: 'send the archive and nothing else',
  });
}

function expansionError(): WaybillError {
  return new WaybillError(
    'archive_bomb',
    `the archive expands to more than ${maxExpansion} times its own size`,
    {
      hint: 'if the content really is that repetitive, send it as an uncompressed tar',
    },
  );
}

/**
 * Pipes bytes through a Node.js transform with backpressure. If the input or the transform fails, the
 * iteration throws the error and both are closed.
 */
export async function* pipeThrough(
  input: AsyncIterable<Uint8Array>,
  transform: Duplex,
): AsyncGenerator<Buffer> {
  const feeding = pipeline(input, transform);
  feeding.catch(() => undefined); // Reported by `await feeding` or by the iteration.
  for await (const chunk of transform) yield chunk as Buffer;
  await feeding;
}

const inputBytes = 1 << 16;

/**
 * Compresses to gzip, always producing the same output for the same input. It does not depend on the Node.js
 * release, the processor or the chunk sizes. Node's zlib is not an option, because its output changes between
 * releases. Every setting is explicit, since the library's defaults depend on the length of the input. Takes
 * a few megabytes of memory, and yields to the event loop after each piece.
 */
export async function* gzip(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let made: Uint8Array[] = [];
  const engine = new Gzip({ level: 6, mem: 8, mtime: 0 }, (bytes) => void made.push(bytes));
  const drain = (): Uint8Array[] => {
    const bytes = made;
    made = [];
    return bytes;
  };
  for await (const piece of inPieces(chunks)) {
    engine.push(piece, false);
    yield* drain();
    await yieldToEventLoop();
  }
  engine.push(new Uint8Array(0), true);
  yield* drain();
}

/**
 * Cuts the input into pieces of the same size, because the output of a compressor can depend on how much is
 * written at a time. Each piece reuses the buffer of the one before.
 */
async function* inPieces(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const piece = new Uint8Array(inputBytes);
  let used = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.byteLength;) {
      const count = Math.min(inputBytes - used, chunk.byteLength - at);
      piece.set(chunk.subarray(at, at + count), used);
      used += count;
      at += count;
      if (used < inputBytes) continue;
      yield piece;
      used = 0;
    }
  }
  if (used > 0) yield piece.subarray(0, used);
}
