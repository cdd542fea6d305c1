/**
 * Reads and writes the text files that minisign uses for keys and signatures. They consist of lines with
 * comments and base64.
 */

/**
 * A file that is larger than this is refused without parsing it. Those from minisign are smaller than 10 KiB.
 */
export const maxFileBytes = 16 * 1024;
/** How long each of the two comments can be in minisign, in bytes. */
const maxCommentBytes = 1024;
export const maxTrustedCommentBytes = 8192;

const commentStart = 'untrusted comment: ';

export type Parsed<T> = { ok: true; value: T } | { ok: false; reason: string };

export function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}

/** Splits a file into its lines. There must be `count`, and the first must be an untrusted comment. */
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

/** Decodes a line of base64. Only the canonical encoding is accepted. */
export function bytesOf(line: string, size: number, what: string): Parsed<Buffer> {
  const bytes = Buffer.from(line, 'base64');
  if (bytes.toString('base64') !== line) return refuse(`${what} is not base64`);
  if (bytes.byteLength !== size) return refuse(`${what} has ${bytes.byteLength} bytes instead of ${size}`);
  return { ok: true, value: bytes };
}

/** Returns the text of a file that has an untrusted comment and a line of base64. */
export function keyFileText(comment: string, bytes: Uint8Array): string {
  return `${commentStart}${comment}\n${Buffer.from(bytes).toString('base64')}\n`;
}

declare const keyIdBrand: unique symbol;
/**
 * The id of a key pair, in the form that minisign prints: 16 uppercase hexadecimal digits. It is not a
 * secret.
 */
export type KeyId = string & { readonly [keyIdBrand]: true };

/** Turns eight bytes into a key id. The first byte is the least significant one. */
export function keyIdOf(bytes: Buffer): KeyId {
  return bytes.readBigUInt64LE().toString(16).toUpperCase().padStart(16, '0') as KeyId;
}
