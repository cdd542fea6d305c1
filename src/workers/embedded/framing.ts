import { crc32 } from 'node:zlib';

/*
 * Each value in the queue's file contains its key, its length and a checksum. This detects corrupted values
 * and makes values recoverable from a file that is otherwise unreadable.
 */
const mark = 'waybill1';
const form = /waybill1 ([0-9a-f]{8}) (\d{1,9}) /g;

/** @param key Must not contain a space. */
export function framed(key: string, value: string): string {
  const body = Buffer.from(`${key} ${value}`);
  return `${mark} ${checksum(body)} ${body.length} ${body.toString()}`;
}

/** Returns the value framed for this key, or undefined if it is damaged. */
export function unframed(key: string, text: string): string | undefined {
  const [head, sum, length] = new RegExp(`^${form.source}`).exec(text) ?? [];
  if (head === undefined) return undefined;
  const rest = text.slice(head.length);
  const body = Buffer.from(rest);
  const isWhole = body.length === Number(length) && checksum(body) === sum && rest.startsWith(`${key} `);
  return isWhole ? rest.slice(key.length + 1) : undefined;
}

/** Finds every intact value at any position in the bytes. Some of them may be outdated. */
export function* framedIn(bytes: Buffer): Generator<string> {
  for (const { 0: head, 1: sum, 2: length, index } of bytes.toString('latin1').matchAll(form)) {
    const begin = index + head.length;
    const body = bytes.subarray(begin, begin + Number(length));
    if (body.length !== Number(length) || checksum(body) !== sum) continue;
    const text = body.toString();
    yield text.slice(text.indexOf(' ') + 1);
  }
}

function checksum(bytes: Uint8Array): string {
  return crc32(bytes).toString(16).padStart(8, '0');
}
