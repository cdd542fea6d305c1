import { isUtf8 } from 'node:buffer';

/** Text decoded from UTF-8, or the position of the first invalid byte. */
type DecodedText =
  | { ok: true; text: string; hasByteOrderMark: boolean }
  | {
      ok: false;
      /** Counted from 1. */
      byte: number;
      /** The line and the column in UTF-16 code units, both counted from 1. */
      line: number;
      column: number;
      looksLikeUtf16: boolean;
    };

/** Decodes UTF-8 strictly. A byte order mark is reported and excluded from the text. Takes linear time. */
export function decodeUtf8(bytes: Uint8Array): DecodedText {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(buffer)) return { ok: false, ...firstBadByte(buffer) };
  const text = buffer.toString('utf8');
  const hasByteOrderMark = text.startsWith('\ufeff');
  return { ok: true, text: hasByteOrderMark ? text.slice(1) : text, hasByteOrderMark };
}

function firstBadByte(buffer: Buffer): Omit<DecodedText & { ok: false }, 'ok'> {
  // Decoding replaces invalid bytes, so the re-encoded text first differs from the input at the first of
  // them.
  const again = Buffer.from(buffer.toString('utf8'), 'utf8');
  let index = 0;
  while (again[index] === buffer[index]) index += 1;
  index = startOfCharacter(buffer, index);
  const before = buffer.toString('utf8', 0, index);
  const lastBreak = before.lastIndexOf('\n');
  let line = 1;
  for (let at = before.indexOf('\n'); at !== -1; at = before.indexOf('\n', at + 1)) line += 1;
  const looksLikeUtf16 =
    (buffer[0] === 0xff && buffer[1] === 0xfe) || (buffer[0] === 0xfe && buffer[1] === 0xff);
  return { byte: index + 1, line, column: before.length - lastBreak, looksLikeUtf16 };
}

/**
 * Returns the start of the damaged character. The replacement character may share its first bytes with it.
 */
function startOfCharacter(buffer: Buffer, index: number): number {
  for (let back = 1; back <= 3 && index - back >= 0; back += 1) {
    const byte = buffer[index - back] ?? 0;
    if (byte < 0x80) return index;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? index - back : index;
  }
  return index;
}

/** Line and column, both counted from 1. Like editors, columns count UTF-16 code units. */
interface Position {
  line: number;
  column: number;
}

/**
 * Converts offsets to positions. Call the returned function with ascending offsets, because it walks the text
 * once and keeps no line index.
 */
export function positionsIn(text: string): (offset: number) => Position {
  let line = 1;
  let lineStart = 0;
  let nextBreak = text.indexOf('\n');
  return (offset) => {
    while (nextBreak !== -1 && nextBreak < offset) {
      line += 1;
      lineStart = nextBreak + 1;
      nextBreak = text.indexOf('\n', lineStart);
    }
    return { line, column: offset - lineStart + 1 };
  };
}
