import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * Tokens created by `waybill token new`: `wb_`, 160 random bits, and a CRC-32 of both. Secret scanners
 * recognize the prefix. The checksum detects typos.
 */

const prefix = 'wb_';
/** RFC 4648 base32 in lowercase, without padding, so that no two letters differ only in case. */
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const form = /^wb_[a-z2-7]{39}$/;
const checksumChars = 7;

export function newToken(): string {
  const body = `${prefix}${base32(randomBytes(20))}`;
  return `${body}${checksumOf(body)}`;
}

/** Returns true if a text begins like such a token but is not valid. */
export function isMistyped(text: string): boolean {
  if (!text.startsWith(prefix)) return false;
  const body = text.slice(0, -checksumChars);
  return !form.test(text) || text.slice(-checksumChars) !== checksumOf(body);
}

function checksumOf(body: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(body));
  return base32(bytes);
}

function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += alphabet[(value >>> (bits - 5)) & 31] ?? '';
    value &= (1 << bits) - 1;
  }
  return bits === 0 ? text : text + (alphabet[(value << (5 - bits)) & 31] ?? '');
}
