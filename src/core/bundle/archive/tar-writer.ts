import { Header, Pax } from 'tar';
import { type Digest, finishDigest, startDigest } from '../../lib/digest.ts';
import { WaybillError } from '../../lib/errors.ts';
import { checkBody } from '../../storage/body.ts';
import type { Body } from '../../storage/storage.ts';

/*
 * Writes tar archives that are the same every time.
 */

export interface TarFile {
  path: string;
  digest: Digest;
  body: Body;
}

const blockBytes = 512;

/**
 * Streams a tar archive of these files, in the order given. All files get the same time, mode 0644 and owner
 * 0 without a name, so that the output is reproducible. Throws `body_mismatch` if a file's size or digest has
 * changed.
 */
export async function* writeTar(files: readonly TarFile[], modified: Date): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    yield headerOf(file, modified);
    const hash = startDigest();
    let size = 0;
    for await (const chunk of file.body.open()) {
      hash.update(chunk);
      size += chunk.byteLength;
      if (size > file.body.size) break;
      yield chunk;
    }
    checkBody(file.path, { size, digest: finishDigest(hash) }, { size: file.body.size, digest: file.digest });
    yield Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes);
  }
  yield Buffer.alloc(2 * blockBytes);
}

/** Returns how large the output of `writeTar` is, in bytes. */
export function tarSize(files: readonly TarFile[], modified: Date): number {
  const padded = (size: number): number => Math.ceil(size / blockBytes) * blockBytes;
  return files.reduce(
    (sum, file) => sum + headerOf(file, modified).byteLength + padded(file.body.size),
    2 * blockBytes,
  );
}

function headerOf({ path, body: { size } }: TarFile, modified: Date): Buffer {
  // Not every tar program can handle fractions of a second, or times before 1970.
  const mtime = new Date(Math.max(0, Math.floor(modified.getTime() / 1000)) * 1000);
  const owner = { mode: 0o644, uid: 0, gid: 0, uname: '', gname: '', mtime };
  const header = new Header({ path, size, type: 'File', ...owner });
  const needsPax = header.encode();
  const block = header.block as Buffer;
  return needsPax ? Buffer.concat([new Pax({ path, size, ...owner }).encode(), block]) : block;
}

/**
 * Parses the records of a pax header, which look like `<length> <key>=<value>\n`. Values are bytes, since not
 * all of them are text. Throws `malformed_archive` if a length is wrong: programs that accept such a header
 * might see different files than we do.
 */
export function readPaxRecords(body: Buffer): Map<string, Buffer> {
  const records = new Map<string, Buffer>();
  for (let start = 0; start < body.byteLength;) {
    const [, digits] = /^([1-9]\d{0,7}) /.exec(body.toString('latin1', start, start + 9)) ?? [];
    if (digits === undefined) throw broken();
    const end = start + Number(digits);
    const record = body.subarray(start + digits.length + 1, end - 1);
    const equals = record.indexOf(0x3d);
    if (body[end - 1] !== 0x0a || equals === -1) throw broken();
    records.set(record.toString('latin1', 0, equals), record.subarray(equals + 1));
    start = end;
  }
  return records;
}

function broken(): WaybillError {
  return new WaybillError('malformed_archive', 'a pax header of the archive is damaged', {
    hint: 'make the archive again with tar',
  });
}
