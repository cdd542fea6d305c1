/** The text form that keys and signatures of minisign share: comment lines and base64 lines. */

/** Larger files are refused before they are parsed. minisign writes less than 10 KiB. */
export const maxFileBytes = 16 * 1024;
/** The limits of minisign for its two comments, in bytes. */
const maxCommentBytes = 1024;
export const maxTrustedCommentBytes = 8192;

const commentStart = 'untrusted comment: ';

export type Parsed<T> = { ok: true; value: T } | { ok: false; reason: string };

export function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}

/** Returns the lines of a file with `count` lines, of which the first is an untrusted comment. */
export function linesOf(bytes: Uint8Array, count: number): Parsed<string[]> {
  if (bytes.byteLength > maxFileBytes) return refuse(`it has more than ${maxFileBytes} bytes`);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refuse('it is not UTF-8 text');
  }
  if (text.includes('\r')) return refuse('it has Windows line ends (CRLF)');
  const lines = text.replace(/\n$/, '').split('\n');
  const [comment = ''] = lines;
  if (!comment.startsWith(commentStart)) return refuse(`it does not begin with "${commentStart}"`);
  if (Buffer.byteLength(comment) > maxCommentBytes)
    return refuse(`its first line has more than ${maxCommentBytes} bytes`);
  if (lines.length !== count)
    return refuse(`it has ${lines.length} ${lines.length === 1 ? 'line' : 'lines'} instead of ${count}`);
  return { ok: true, value: lines };
}

/** Returns the bytes of a base64 line in its only valid form. */
export function bytesOf(line: string, size: number, what: string): Parsed<Buffer> {
  const bytes = Buffer.from(line, 'base64');
  if (bytes.toString('base64') !== line) return refuse(`${what} is not base64`);
  if (bytes.byteLength !== size) return refuse(`${what} has ${bytes.byteLength} bytes instead of ${size}`);
  return { ok: true, value: bytes };
}

/** Returns a file of an untrusted comment and one line of base64. */
export function keyFileText(comment: string, bytes: Uint8Array): string {
  return `${commentStart}${comment}\n${Buffer.from(bytes).toString('base64')}\n`;
}

declare const keyIdBrand: unique symbol;
/** The id of a key pair as minisign prints it: 16 upper-case hexadecimal digits. It is not secret. */
export type KeyId = string & { readonly [keyIdBrand]: true };

/** Returns the id from its eight little-endian bytes. */
export function keyIdOf(bytes: Buffer): KeyId {
  return bytes.readBigUInt64LE().toString(16).toUpperCase().padStart(16, '0') as KeyId;
}
