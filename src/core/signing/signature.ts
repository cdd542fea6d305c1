import { createHash, sign, verify } from 'node:crypto';
import {
  bytesOf,
  type KeyId,
  keyIdOf,
  linesOf,
  maxTrustedCommentBytes,
  type Parsed,
  refuse,
} from './minisign-text.ts';
import type { PublicKey } from './public-key.ts';
import type { SecretKey } from './secret-key.ts';

/** A signature file. It has been parsed, but not verified. */
export interface Signature {
  keyId: KeyId;
  /**
   * Whether the signature covers the BLAKE2b-512 digest of the file (`ED`). Otherwise, it covers the file
   * itself (`Ed`), as in old versions.
   */
  isPrehashed: boolean;
  /** 64 bytes. */
  bytes: Buffer;
  /** Do not trust this before `signatureFault` has returned null. */
  trustedComment: string;
  /** Signs `bytes` together with the trusted comment. 64 bytes. */
  global: Buffer;
}

const trustedStart = 'trusted comment: ';

/**
 * Returns the text of a signature file, which is always the same for the same arguments.
 *
 * @param trustedComment A single line, which is signed as well.
 */
export function signatureFile(content: Uint8Array, secret: SecretKey, trustedComment: string): string {
  const signature = sign(null, prehash(content), secret.key);
  const global = sign(null, Buffer.concat([signature, Buffer.from(trustedComment)]), secret.key);
  const head = Buffer.concat([Buffer.from('ED'), secret.publicKey.idBytes, signature]);
  return [
    `untrusted comment: signature from waybill, key ${secret.publicKey.id}`,
    head.toString('base64'),
    `${trustedStart}${trustedComment}`,
    global.toString('base64'),
    '',
  ].join('\n');
}

/**
 * Returns a trusted comment like those from minisign. It has the time, in seconds since 1970, and the name of
 * the file.
 */
export function trustedCommentOf(time: Date, file: string): string {
  return `timestamp:${Math.floor(time.getTime() / 1000)}\tfile:${file}\thashed`;
}

export function parseSignature(bytes: Uint8Array): Parsed<Signature> {
  const lines = linesOf(bytes, 4);
  if (!lines.ok) return lines;
  const [, signature = '', comment = '', last = ''] = lines.value;
  const head = bytesOf(signature, 2 + 8 + 64, 'its second line');
  if (!head.ok) return head;
  const algorithm = head.value.toString('latin1', 0, 2);
  if (algorithm !== 'ED' && algorithm !== 'Ed') return refuse('its algorithm is not Ed25519');
  if (!comment.startsWith(trustedStart))
    return refuse(`its third line does not begin with "${trustedStart}"`);
  const trustedComment = comment.slice(trustedStart.length);
  if (Buffer.byteLength(trustedComment) > maxTrustedCommentBytes)
    return refuse(`its trusted comment has more than ${maxTrustedCommentBytes} bytes`);
  const global = bytesOf(last, 64, 'its last line');
  if (!global.ok) return global;
  return {
    ok: true,
    value: {
      keyId: keyIdOf(head.value.subarray(2, 10)),
      isPrehashed: algorithm === 'ED',
      bytes: head.value.subarray(10),
      trustedComment,
      global: global.value,
    },
  };
}

/**
 * Returns the reason why this is not a valid signature for the content, or null if it is. Make sure first
 * that the key ids are the same.
 */
export function signatureFault(content: Uint8Array, signature: Signature, { key }: PublicKey): string | null {
  const { isPrehashed, bytes, trustedComment, global } = signature;
  if (!verify(null, isPrehashed ? prehash(content) : content, key, bytes))
    return 'it was made for other bytes';
  const covered = Buffer.concat([bytes, Buffer.from(trustedComment)]);
  return verify(null, covered, key, global) ? null : 'its trusted comment was changed';
}

function prehash(content: Uint8Array): Buffer {
  return createHash('blake2b512').update(content).digest();
}
