import { isUtf8 } from 'node:buffer';

/** The decoded text, or the position of the first byte that is not valid UTF-8. */
type DecodedText =
  | { ok: true; text: string; hasByteOrderMark: boolean }
  | {
      ok: false;
      /** Starting at 1. */
      byte: number;
      /** Starting at 1, like the column, which counts UTF-16 code units. */
      line: number;
      column: number;
      looksLikeUtf16: boolean;
    };

/**
 * Decodes UTF-8 and refuses anything invalid. A byte order mark is reported, and is not part of the text.
 * Takes linear time.
 */
export function decodeUtf8(bytes: Uint8Array): DecodedText {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(buffer)) return { ok: false, ...firstBadByte(buffer) };
  const text = buffer.toString('utf8');
  const hasByteOrderMark = text.startsWith('\ufeff');
  return { ok: true, text: hasByteOrderMark ? text.slice(1) : text, hasByteOrderMark };
}

function firstBadByte(buffer: Buffer): Omit<DecodedText & { ok: false }, 'ok'> {
  // Decoding replaces invalid bytes. Encode the text again, and the first byte that is different was invalid.
  const reencoded = Buffer.from(buffer.toString('utf8'), 'utf8');
  let index = 0;
  while (reencoded[index] === buffer[index]) index += 1;
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
 * Returns where the invalid character starts. The replacement character may begin with some of the same
 * bytes.
 */
function startOfCharacter(buffer: Buffer, index: number): number {
  for (let back = 1; back <= 3 && index - back >= 0; back += 1) {
    const byte = buffer[index - back] ?? 0;
    if (byte < 0x80) return index;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? index - back : index;
  }
  return index;
}

/** A line and column, starting at 1. Columns count UTF-16 code units, like editors do. */
export interface TextPosition {
  line: number;
  column: number;
}

/**
 * Returns a function that turns offsets into positions. The offsets you pass must be in ascending order,
 * because it goes through the text only once and does not build an index.
 */
export function positionsIn(text: string): (offset: number) => TextPosition {
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
