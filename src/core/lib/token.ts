import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * Tokens from `waybill token new`. They consist of `wb_`, 160 random bits, and a CRC-32 of both. The prefix
 * is there so that secret scanners recognize them, and the checksum catches typos.
 */

const prefix = 'wb_';
/** Base32 (RFC 4648) in lowercase and without padding. No two letters differ only in case. */
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const form = /^wb_[a-z2-7]{39}$/;
const checksumChars = 7;

export function newToken(): string {
  const body = `${prefix}${base32(randomBytes(20))}`;
  return `${body}${checksumOf(body)}`;
}

/** Reports whether this looks like one of our tokens but is not valid. */
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
