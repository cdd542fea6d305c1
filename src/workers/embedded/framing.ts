import { crc32 } from 'node:zlib';

/*
 * Each value in the file of the queue says of which entry it is and how long, and has a checksum, so that
 * what a disk has garbled is never taken for what was written, and so that values can be found in a file that
 * nothing else can be made of.
 */
const mark = 'waybill1';
const form = /waybill1 ([0-9a-f]{8}) (\d{1,9}) /g;

/** @param key Has no space in it. */
export function framed(key: string, value: string): string {
  const body = Buffer.from(`${key} ${value}`);
  return `${mark} ${checksum(body)} ${body.length} ${body.toString()}`;
}

/** The value that was framed for this key; undefined if it is not as it was written. */
export function unframed(key: string, text: string): string | undefined {
  const [head, sum, length] = new RegExp(`^${form.source}`).exec(text) ?? [];
  if (head === undefined) return undefined;
  const rest = text.slice(head.length);
  const body = Buffer.from(rest);
  const isWhole = body.length === Number(length) && checksum(body) === sum && rest.startsWith(`${key} `);
  return isWhole ? rest.slice(key.length + 1) : undefined;
}

/** Every value that is whole, wherever it lies among other bytes; some may be older than others. */
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
