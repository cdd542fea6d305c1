import { lstat, open, readdir, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import type { WatchConfig } from '../../../core/config/weather/feed.ts';
import type { Clock } from '../../../core/lib/clock.ts';
import { errorMessage, WaybillError } from '../../../core/lib/errors.ts';
import { describeFileError } from '../../../core/lib/system-errors.ts';
import { feedDocument, type FeedResult, notFed } from '../feed-document.ts';
import type { WritableDatabase } from '../tables/upsert.ts';

/** The largest file to read, in bytes. The largest documents from the NWS are about 10 MB. */
export const maxFileBytes = 64 * 1024 * 1024;

/**
 * Returns the path itself if it is a file, or all files below it if it is a directory, sorted by name. Skips
 * hidden files, Markdown, symbolic links and special files. Throws `usage` if the path does not exist.
 */
export async function filesAt(path: string): Promise<string[]> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new WaybillError('usage', `${path} cannot be read: ${describeFileError(cause)}`, {
      hint: 'name an existing file or directory, or - for standard input',
      cause,
    });
  });
  if (!found.isDirectory()) return [path];
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.') && !entry.name.endsWith('.md'))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter(
      (file) =>
        !relative(path, file)
          .split('/')
          .some((part) => part.startsWith('.')),
    )
    .sort();
}

/**
 * Loads a file. The outcome is `failed` if it cannot be read, is not a regular file, is too large, or is not
 * UTF-8. Throws the database's errors.
 */
export async function feedFile(target: WritableDatabase, file: string): Promise<FeedResult> {
  let text: string;
  try {
    text = decoded(await bytesOf(file));
  } catch (error) {
    return notFed(file, 'failed', errorMessage(error));
  }
  return feedDocument(target, { place: file, name: basename(file), text, receivedAt: null });
}

/** Decodes UTF-8. Throws if the bytes are not valid. */
export function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error('it is not UTF-8');
  }
}

async function bytesOf(file: string): Promise<Uint8Array> {
  // Check first, because opening a named pipe would block until something writes to it.
  const found = await stat(file);
  if (!found.isFile()) throw new Error('it is not a regular file');
  if (found.size > maxFileBytes) throw new Error(`it is larger than ${maxFileBytes} bytes`);
  const handle = await open(file);
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

/**
 * Returns a string that changes when the file is modified or replaced. Returns null if there is no regular
 * file.
 */
async function stateOf(file: string): Promise<string | null> {
  const found = await lstat(file).catch(() => null);
  return found?.isFile() === true ? `${found.ino} ${found.size} ${found.mtimeMs}` : null;
}

interface ScanOptions {
  /** Load all files that exist, without waiting for them to stop changing. */
  settled?: boolean;
  signal?: AbortSignal;
}

/**
 * Loads new and changed files that have stopped changing, and returns the results. Throws `usage` if the
 * directory does not exist. If it throws a database error, the files are tried again in the next scan.
 */
type Scan = (target: WritableDatabase, options?: ScanOptions) => Promise<FeedResult[]>;

/**
 * Looks for new and changed files by listing a directory, rather than relying on notifications. This also
 * works on network drives, and finds files that arrived while the program was not running. A file is loaded
 * when it has not changed for `settleMs`. After that, it is only loaded again if it changes, even if loading
 * it has failed.
 */
export function watchDirectory({ directory, settleMs }: WatchConfig, clock: Clock): Scan {
  const seen = new Map<string, { state: string; since: number; isLoaded: boolean }>();
  return async (target, { settled = false, signal } = {}) => {
    const files = await filesAt(directory);
    const present = new Set(files);
    for (const file of seen.keys()) if (!present.has(file)) seen.delete(file);
    const fed: FeedResult[] = [];
    for (const file of files) {
      signal?.throwIfAborted();
      const state = await stateOf(file);
      if (state === null) continue;
      const now = clock.monotonic();
      const before = seen.get(file);
      const known = before?.state === state ? before : { state, since: now, isLoaded: false };
      seen.set(file, known);
      if (known.isLoaded || (!settled && now - known.since < settleMs)) continue;
      fed.push(await feedFile(target, file));
      known.isLoaded = true;
    }
    return fed;
  };
}
