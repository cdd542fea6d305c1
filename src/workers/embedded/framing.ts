import { crc32 } from 'node:zlib';

/*
 * Every value in the queue's file is stored along with its key, its length, and a checksum. This lets us
 * detect corrupted values, and recover the intact ones from a file that cannot be read otherwise.
 */
const mark = 'waybill1';
const form = /waybill1 ([0-9a-f]{8}) (\d{1,9}) /g;

/** @param key Must not contain spaces. */
export function frame(key: string, value: string): string {
  const body = Buffer.from(`${key} ${value}`);
  return `${mark} ${checksum(body)} ${body.length} ${body.toString()}`;
}

/** Returns the value stored under this key, or undefined if it is corrupted. */
export function unframe(key: string, text: string): string | undefined {
  const [head, sum, length] = new RegExp(`^${form.source}`).exec(text) ?? [];
  if (head === undefined) return undefined;
  const rest = text.slice(head.length);
  const body = Buffer.from(rest);
  const isWhole = body.length === Number(length) && checksum(body) === sum && rest.startsWith(`${key} `);
  return isWhole ? rest.slice(key.length + 1) : undefined;
}

/** Finds all intact values, wherever they are in the file. Some of them may be out of date. */
export function* findFrames(bytes: Buffer): Generator<string> {
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
