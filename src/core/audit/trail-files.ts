import { constants } from 'node:fs';
import { type FileHandle, open, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { isRecord } from '../lib/json-document.ts';
import { isAbsent } from '../lib/system-errors.ts';
import { type ChainEnd, digestOfLine, parseLine } from './record.ts';

/*
 * Names and reads the files of a trail. A file is named after the `seq` of its first record. Sorted by name,
 * the files are in the right order, and a missing one stands out. The end of the chain is also stored in
 * `head`, so it is noticed if a file has been cut off.
 */

const nameForm = /^audit-(\d{12,})\.jsonl$/;

/** No record is ever this long. */
export const maxLineBytes = 64 * 1024;

export interface TrailFile {
  name: string;
  /** The `seq` of the first record, which is part of the name. */
  firstSeq: number;
}

export function trailFileName(firstSeq: number): string {
  return `audit-${String(firstSeq).padStart(12, '0')}.jsonl`;
}

/** Returns the files in order. If the directory does not exist, there are none. */
export async function listTrailFiles(directory: string): Promise<TrailFile[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (isAbsent(error)) return [];
    throw error;
  });
  return names
    .flatMap((name): TrailFile[] => {
      const digits = nameForm.exec(name)?.[1];
      return digits === undefined ? [] : [{ name, firstSeq: Number(digits) }];
    })
    .sort((a, b) => a.firstSeq - b.firstSeq);
}

/**
 * Opens a file to append to it. Root may write to the trail of another user. A link there could lead to any
 * file of root.
 */
export function openToAppend(file: string): Promise<FileHandle> {
  return open(file, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
}

/** The end of the chain when this was last written: the record, the file, and the size of the file. */
export interface Head extends ChainEnd {
  file: string | null;
  size: number;
}

/**
 * `head` is overwritten in place. Since its block is allocated already, that works even if the disk is full.
 */
const headBytes = 256;
export const headName = 'head';

export async function openHead(directory: string): Promise<{ handle: FileHandle; isNew: boolean }> {
  const at = path.join(directory, headName);
  try {
    return { handle: await open(at, constants.O_RDWR | constants.O_NOFOLLOW), isNew: false };
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return { handle: await open(at, 'wx+', 0o600), isNew: true };
  }
}

export async function writeHead(handle: FileHandle, head: Head): Promise<void> {
  const text = `${JSON.stringify(head).padEnd(headBytes - 1)}\n`;
  await handle.write(text, 0);
}

/** Reads `head`. Returns null if it does not exist or is damaged. */
export async function readHead(directory: string): Promise<Head | null> {
  try {
    return parseHead(await readFile(path.join(directory, headName), 'utf8'));
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
}

export async function readHeadOf(handle: FileHandle): Promise<Head | null> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(headBytes), 0, headBytes, 0);
  return parseHead(buffer.toString('utf8', 0, bytesRead));
}

function parseHead(text: string): Head | null {
  try {
    const head: unknown = JSON.parse(text);
    return isHead(head) ? head : null;
  } catch {
    return null;
  }
}

function isHead(value: unknown): value is Head {
  if (!isRecord(value)) return false;
  const { seq, digest, file, size } = value;
  const isText = [digest, file].every((each) => each === null || typeof each === 'string');
  return Number.isSafeInteger(seq) && Number.isSafeInteger(size) && isText;
}

/** The last record of a file, and anything after it. */
export interface FileEnd {
  size: number;
  /** The last line that is complete; null if there is none, or if it is not a record. */
  last: ChainEnd | null;
  /** Whether the last complete line is something other than a record. */
  isDamaged: boolean;
  /**
   * The rest of a write that was interrupted: everything after the last line feed, or the bytes that were cut
   * off.
   */
  torn: Buffer;
  /** Whether these bytes were cut off. */
  isCut: boolean;
}

export async function readFileEnd(handle: FileHandle): Promise<FileEnd> {
  const { size } = await handle.stat();
  const begin = Math.max(0, size - maxLineBytes);
  const bytes = Buffer.alloc(size - begin);
  await handle.read(bytes, 0, bytes.length, begin);
  const end = bytes.lastIndexOf(0x0a);
  const torn = bytes.subarray(end + 1);
  if (end === -1) return { size, last: null, isDamaged: begin > 0, torn, isCut: false };
  const line = bytes.subarray(bytes.lastIndexOf(0x0a, end - 1) + 1, end);
  const record = parseLine(line.toString());
  const last = record === null ? null : { seq: record.seq, digest: digestOfLine(line) };
  return { size, last, isDamaged: record === null, torn, isCut: false };
}

/**
 * Returns the end of a file, given that the records in its first `size` bytes end with `from`. If the power
 * fails during a write, some sectors may be zeros even if there are complete lines after them. None of the
 * acts in such a write was confirmed, so it is cut off, and the next record continues the chain. Returns null
 * if this is not the rest of such a write.
 */
export async function readTail(
  handle: FileHandle,
  from: ChainEnd & { size: number },
): Promise<FileEnd | null> {
  const { size } = await handle.stat();
  if (from.size > size) return null;
  const bytes = Buffer.alloc(size - from.size);
  await handle.read(bytes, 0, bytes.length, from.size);
  let last: ChainEnd = { seq: from.seq, digest: from.digest };
  let at = 0;
  for (let end = bytes.indexOf(0x0a); end !== -1; end = bytes.indexOf(0x0a, at)) {
    const line = bytes.subarray(at, end);
    const record = parseLine(line.toString());
    if (record?.seq !== last.seq + 1 || record.prev !== last.digest) {
      if (!line.includes(0)) return null;
      await handle.truncate(from.size + at);
      return { size: from.size + at, last, isDamaged: false, torn: bytes.subarray(at), isCut: true };
    }
    last = { seq: record.seq, digest: digestOfLine(line) };
    at = end + 1;
  }
  return { size, last, isDamaged: false, torn: bytes.subarray(at), isCut: false };
}

export async function readFirstTime(handle: FileHandle): Promise<Date | null> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxLineBytes), 0, maxLineBytes, 0);
  const text = buffer.toString('utf8', 0, bytesRead);
  const record = parseLine(text.slice(0, Math.max(0, text.indexOf('\n'))));
  return record === null ? null : new Date(record.time);
}
