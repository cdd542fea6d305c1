import { Header, Pax } from 'tar';
import { type Digest, finishDigest, startDigest } from '../../lib/digest.ts';
import { WaybillError } from '../../lib/errors.ts';
import { checkBody } from '../../storage/body.ts';
import type { Body } from '../../storage/storage.ts';

/*
 * Writes deterministic tar archives.
 */

export interface TarFile {
  path: string;
  digest: Digest;
  body: Body;
}

const blockBytes = 512;

/**
 * Streams a tar archive of regular files in the given order. The output is reproducible: all files have the
 * same time, mode 0644 and owner 0 without a name. Throws `body_mismatch` if a file's size or digest has
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

/** Returns the size in bytes of the archive that `writeTar` creates. */
export function tarSize(files: readonly TarFile[], modified: Date): number {
  const padded = (size: number): number => Math.ceil(size / blockBytes) * blockBytes;
  return files.reduce(
    (sum, file) => sum + headerOf(file, modified).byteLength + padded(file.body.size),
    2 * blockBytes,
  );
}

function headerOf({ path, body: { size } }: TarFile, modified: Date): Buffer {
  // Use whole seconds, and no time before 1970, which not every tar program supports.
  const mtime = new Date(Math.max(0, Math.floor(modified.getTime() / 1000)) * 1000);
  const owner = { mode: 0o644, uid: 0, gid: 0, uname: '', gname: '', mtime };
  const header = new Header({ path, size, type: 'File', ...owner });
  const needsPax = header.encode();
  const block = header.block as Buffer;
  return needsPax ? Buffer.concat([new Pax({ path, size, ...owner }).encode(), block]) : block;
}

/**
 * Parses the records of a pax header, `<length> <key>=<value>\n` each. Values are bytes, because not all are
 * text. Throws `malformed_archive` if a length is wrong, because programs that tolerate that may see
 * different files.
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
