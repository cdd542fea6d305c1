/** The text format shared by minisign keys and signatures: comment lines and base64 lines. */

/** Larger files are refused before parsing. Files written by minisign are smaller than 10 KiB. */
export const maxFileBytes = 16 * 1024;
/** minisign's limit for each of its two comments, in bytes. */
const maxCommentBytes = 1024;
export const maxTrustedCommentBytes = 8192;

const commentStart = 'untrusted comment: ';

export type Parsed<T> = { ok: true; value: T } | { ok: false; reason: string };

export function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}

/** Splits a file into `count` lines, of which the first is an untrusted comment. */
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

/** Decodes a base64 line, accepting only its canonical form. */
export function bytesOf(line: string, size: number, what: string): Parsed<Buffer> {
  const bytes = Buffer.from(line, 'base64');
  if (bytes.toString('base64') !== line) return refuse(`${what} is not base64`);
  if (bytes.byteLength !== size) return refuse(`${what} has ${bytes.byteLength} bytes instead of ${size}`);
  return { ok: true, value: bytes };
}

/** Returns the content of a file with an untrusted comment and one line of base64. */
export function keyFileText(comment: string, bytes: Uint8Array): string {
  return `${commentStart}${comment}\n${Buffer.from(bytes).toString('base64')}\n`;
}

declare const keyIdBrand: unique symbol;
/** A key pair's id, as printed by minisign: 16 upper-case hexadecimal digits. It is not secret. */
export type KeyId = string & { readonly [keyIdBrand]: true };

/** Converts eight little-endian bytes to a key id. */
export function keyIdOf(bytes: Buffer): KeyId {
  return bytes.readBigUInt64LE().toString(16).toUpperCase().padStart(16, '0') as KeyId;
}
