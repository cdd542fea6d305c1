import { isUtf8 } from 'node:buffer';
import { Header } from 'tar';
import { escapedName, notUtf8, quotedName, renameHint } from '../../lib/text.ts';
import { archiveError, malformedArchive, truncatedArchive, unsafeEntry } from './archive-errors.ts';
import { readPaxRecords } from './tar-writer.ts';

/** A file or directory in an archive. */
export interface TarEntry {
  type: 'file' | 'directory';
  /** The name as it is in the archive. It is valid UTF-8, and has not been checked beyond that. */
  name: string;
  /** The size in bytes. */
  size: number;
  /** The modification time in whole seconds; null if the archive has none, or one out of range. */
  modifiedAt: Date | null;
  /**
   * Streams the content. Can only be called once, and before asking for the next entry. Bytes that are not
   * read are skipped.
   */
  read(): AsyncGenerator<Buffer>;
}

const blockBytes = 512;
const maxMetaBytes = 2 ** 20;
/** How many metadata headers there may be in a row: pax, GNU long name and GNU long link target. */
const maxMetaInARow = 4;
const maxPaddingBytes = 16 * 2 ** 20;
const zeros = Buffer.alloc(blockBytes);

/**
 * Yields the entries of a tar archive (ustar, pax or GNU) in order. This is strict: anything that tar
 * programs accept with a warning, or do not agree on, is an error. Only files and directories are allowed.
 * Throws `unsafe_archive_entry` for other types and for names that are not UTF-8, and `malformed_archive` if
 * the archive is damaged or truncated. There must be two zero blocks at the end, with nothing but zeros after
 * them.
 *
 * Headers are decoded by the tar package. Its parser is not used: it buffers everything after the end marker,
 * breaks names that are split across two chunks, and accepts malformed pax headers.
 */
export async function* readTar(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry> {
  const source = byteSource(chunks);
  try {
    let isFirst = true;
    for (;;) {
      const next = await nextHeader(source, isFirst);
      if (next === null) return;
      isFirst = false;
      const { header, name, size } = next;
      let unread = size;
      const read = async function* (): AsyncGenerator<Buffer> {
        for await (const piece of source.slices(unread)) {
          unread -= piece.byteLength;
          yield piece;
        }
      };
      const type = header.type === 'Directory' ? 'directory' : 'file';
      yield { type, name, size, modifiedAt: timeOf(header), read };
      while (unread > 0) unread -= await source.skip(unread);
      await skipPadding(source, size);
    }
  } finally {
    await source.close();
  }
}

/** A header can hold seconds that no `Date` can. */
function timeOf({ mtime }: Header): Date | null {
  return mtime === undefined || Number.isNaN(mtime.getTime()) ? null : mtime;
}

interface EntryHeader {
  header: Header;
  name: string;
  size: number;
}

/**
 * Reads the header of the next file or directory, including any metadata headers before it. Returns null at
 * the end of the archive.
 */
async function nextHeader(source: ByteSource, isFirst: boolean): Promise<EntryHeader | null> {
  let name: string | undefined;
  let size: number | undefined;
  for (let metas = 0; ; metas += 1) {
    const block = await source.take(blockBytes);
    if (block.byteLength < blockBytes) throw truncatedArchive(isFirst && metas === 0, block.byteLength);
    if (block.equals(zeros)) {
      if (metas > 0) throw malformedArchive('the archive ends after a header that describes the next file');
      await readEnd(source);
      return null;
    }
    const header = decodeHeader(block, isFirst && metas === 0, name);
    const claimed = header.path ?? '';
    if (header.type === 'File' || header.type === 'Directory') {
      if ((header.linkpath ?? '') !== '')
        throw unsafeEntry(claimed, 'is a file that names the target of a link');
      if (isDirectoryByName(header, block) && (size ?? sizeField(block)) !== 0)
        throw malformedArchive(
          `the file ${quotedName(name ?? claimed)} has content, but its name ends with "/"`,
        );
      const realSize = header.type === 'Directory' ? 0 : (size ?? header.size ?? NaN);
      if (!Number.isSafeInteger(realSize))
        throw malformedArchive(`the size of ${quotedName(claimed)} is not a number`);
      return { header, name: name ?? decodeName(nameBytes(block, claimed)), size: realSize };
    }
    if (metas === maxMetaInARow) throw malformedArchive('too many headers describe one file');
    const meta = await readMeta(source, header, block);
    if (meta.name !== undefined && name !== undefined) throw malformedArchive('a file is given two names');
    name ??= meta.name;
    size ??= meta.size;
  }
}

interface MetaFields {
  name?: string | undefined;
  size?: number | undefined;
}

async function readMeta(source: ByteSource, header: Header, block: Buffer): Promise<MetaFields> {
  const { type, size = 0, path = '' } = header;
  const isKnown = [
    'ExtendedHeader',
    'GlobalExtendedHeader',
    'NextFileHasLongPath',
    'NextFileHasLongLinkpath',
  ].includes(type);
  if (!isKnown) throw unsafeEntry(path, `is ${typeName(header, block)}`);
  if (size > maxMetaBytes) throw malformedArchive(`a header of ${size} bytes describes the next file`);
  const body = await source.take(size);
  if (body.byteLength < size) throw truncatedArchive(false, body.byteLength);
  await skipPadding(source, size);
  if (type === 'NextFileHasLongLinkpath') return {}; // A link comes next, and that is going to be refused.
  if (type === 'NextFileHasLongPath') return { name: decodeName(trimNul(body)) };
  const records = readPaxRecords(body);
  if ([...records.keys()].some((key) => key.startsWith('GNU.sparse.')))
    throw unsafeEntry(path, 'is a sparse file');
  const name = records.get('path');
  const length = records.get('size');
  if (type === 'GlobalExtendedHeader') {
    if (name !== undefined || length !== undefined)
      throw malformedArchive('a global header gives all files one name or size');
    return {};
  }
  if (length !== undefined && !/^\d{1,15}$/.test(length.toString('latin1')))
    throw malformedArchive('a pax header gives a size that is not a number');
  return {
    name: name === undefined || name.byteLength === 0 ? undefined : decodeName(name),
    size: length === undefined ? undefined : Number(length.toString('latin1')),
  };
}

/**
 * Decodes a header. `name` is the name from the metadata headers before it, if any. A file whose name ends
 * with "/" is a directory, and the name in the header may have been cut after a "/".
 */
function decodeHeader(block: Buffer, isFirst: boolean, name: string | undefined): Header {
  let header: Header;
  try {
    header = new Header(block, 0, { path: name });
  } catch (cause) {
    throw malformedArchive('a header holds a number that is out of range', cause);
  }
  if (!header.cksumValid) {
    if (isFirst) throw malformedArchive('the upload is not a tar archive');
    throw malformedArchive('a header has a wrong checksum: the archive is damaged');
  }
  return header;
}

/**
 * Reports whether an entry is marked as a file, but is a directory because its name ends with "/". If such an
 * entry has a size, tar programs disagree on whether content follows.
 */
function isDirectoryByName({ type }: Header, block: Buffer): boolean {
  return type === 'Directory' && block.toString('latin1', 156, 157) !== '5';
}

/** Returns the size that a header gives, in any encoding. Only its being zero has a meaning. */
function sizeField(block: Buffer): number {
  return block.subarray(124, 136).some((byte) => ![0, 0x20, 0x30].includes(byte)) ? 1 : 0;
}

/** Reads the second zero block and any zeros after it. */
async function readEnd(source: ByteSource): Promise<void> {
  const second = await source.take(blockBytes);
  if (second.byteLength < blockBytes) throw truncatedArchive(false, second.byteLength);
  if (!second.equals(zeros)) throw malformedArchive('the archive has a zero block between entries');
  let padding = 0;
  for (let chunk = await source.next(); chunk !== null; chunk = await source.next()) {
    padding += chunk.byteLength;
    if (padding > maxPaddingBytes) throw malformedArchive('the archive has endless padding');
    if (!isZero(chunk)) throw malformedArchive('something follows the end of the archive');
  }
}

function isZero(chunk: Buffer): boolean {
  return chunk.every((byte) => byte === 0);
}

/**
 * Skips the padding after an entry. If the archive ends here, the next header cannot be read and that is an
 * error.
 */
async function skipPadding(source: ByteSource, size: number): Promise<void> {
  await source.take((blockBytes - (size % blockBytes)) % blockBytes);
}

function decodeName(bytes: Buffer): string {
  if (bytes.includes(0)) throw unsafeEntry(bytes.toString('utf8'), 'holds a NUL in its name');
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const name = escapedName(bytes.subarray(0, 200)) + (bytes.byteLength > 200 ? '…' : '');
  throw archiveError(
    'unsafe_archive_entry',
    `the archive entry "${name}" ${notUtf8}`,
    `${renameHint}, and make the archive again`,
  );
}

/**
 * Returns the bytes that a name was decoded from. The codec replaces anything that is not UTF-8, and names
 * like that have to be refused.
 */
function nameBytes(block: Buffer, decoded: string): Buffer {
  if (!decoded.includes('\ufffd')) return Buffer.from(decoded);
  const field = (at: number, length: number): Buffer => {
    const bytes = block.subarray(at, at + length);
    const end = bytes.indexOf(0);
    return end === -1 ? bytes : bytes.subarray(0, end);
  };
  const prefix = field(345, 155);
  const name = field(0, 100);
  // Only ustar has a prefix. There is one if the name field is not the complete decoded name.
  return name.toString('utf8') === decoded ? name : Buffer.concat([prefix, Buffer.from('/'), name]);
}

function trimNul(bytes: Buffer): Buffer {
  return bytes.at(-1) === 0 ? bytes.subarray(0, -1) : bytes;
}

function typeName({ type }: Header, block: Buffer): string {
  const names: Record<string, string> = {
    Link: 'a hard link',
    SymbolicLink: 'a symbolic link',
    CharacterDevice: 'a character device',
    BlockDevice: 'a block device',
    FIFO: 'a named pipe',
    SparseFile: 'a sparse file',
  };
  return names[type] ?? `of the type ${quotedName(String.fromCharCode(block[156] ?? 0))}`;
}

/** Reads a stream of chunks in whatever sizes the caller asks for. Buffers no more than one chunk. */
interface ByteSource {
  /** Returns `count` bytes, or fewer at the end of the stream. Meant for small counts. */
  take(count: number): Promise<Buffer>;
  /** Streams `count` bytes. Throws `malformed_archive` if the stream has fewer. */
  slices(count: number): AsyncGenerator<Buffer>;
  /** Skips between 1 and `count` bytes, and returns how many. Throws `malformed_archive` at the end. */
  skip(count: number): Promise<number>;
  /** Returns some bytes, however many there are, or null at the end. */
  next(): Promise<Buffer | null>;
  close(): Promise<void>;
}

export function byteSource(chunks: AsyncIterable<Uint8Array>): ByteSource {
  const iterator = chunks[Symbol.asyncIterator]();
  let buffered: Buffer = Buffer.alloc(0);

  const refill = async (): Promise<boolean> => {
    while (buffered.byteLength === 0) {
      const step = await iterator.next();
      if (step.done === true) return false;
      buffered = Buffer.from(step.value.buffer, step.value.byteOffset, step.value.byteLength);
    }
    return true;
  };
  const cut = (count: number): Buffer => {
    const piece = buffered.subarray(0, count);
    buffered = buffered.subarray(count);
    return piece;
  };

  return {
    async take(count) {
      if (buffered.byteLength >= count) return cut(count);
      const pieces: Buffer[] = [];
      let missing = count;
      while (missing > 0 && (await refill())) {
        const piece = cut(missing);
        pieces.push(piece);
        missing -= piece.byteLength;
      }
      return Buffer.concat(pieces);
    },
    async *slices(count) {
      for (let missing = count; missing > 0;) {
        if (!(await refill())) throw truncatedArchive(false, 0);
        const piece = cut(missing);
        missing -= piece.byteLength;
        yield piece;
      }
    },
    async skip(count) {
      if (!(await refill())) throw truncatedArchive(false, 0);
      return cut(count).byteLength;
    },
    next: async () => ((await refill()) ? cut(buffered.byteLength) : null),
    close: async () => {
      await iterator.return?.();
    },
  };
}
