import { lstat, open, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { WatchConfig } from '../../../core/config/weather/feed.ts';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { feedDocument, type FeedResult, notFed } from '../feed-document.ts';
import type { Target } from '../tables/upsert.ts';

/** Maximum size of a file that is read, in bytes. The NWS's largest documents are about 10 MB. */
export const maxFileBytes = 64 * 1024 * 1024;

/**
 * Lists the files at a path: the file itself, or all files below a directory, sorted by name. Skips hidden
 * files, Markdown, symbolic links and special files. Throws `usage` if nothing exists at the path.
 */
export async function filesAt(path: string): Promise<string[]> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new WaybillError('usage', `${path} cannot be read`, {
      hint: 'name a file or a directory that is there, or - for standard input',
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
        !file
          .slice(path.length)
          .split('/')
          .some((part) => part.startsWith('.')),
    )
    .sort();
}

/**
 * Loads one file. The outcome is `failed` if the file cannot be read, is not a regular file, is too large or
 * is not UTF-8. Throws the database's errors.
 */
export async function feedFile(target: Target, file: string): Promise<FeedResult> {
  let text: string;
  try {
    text = decoded(await bytesOf(file));
  } catch (error) {
    return notFed(file, 'failed', error instanceof Error ? error.message : String(error));
  }
  return feedDocument(target, { place: file, name: basename(file), text, receivedAt: null });
}

/** Decodes bytes as UTF-8 text. */
export function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error('it is not UTF-8');
  }
}

async function bytesOf(file: string): Promise<Uint8Array> {
  // This is checked before opening, because opening a pipe would wait for a writer.
  const found = await stat(file);
  if (!found.isFile()) throw new Error('it is no regular file');
  if (found.size > maxFileBytes) throw new Error(`it is larger than ${maxFileBytes} bytes`);
  const handle = await open(file);
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

/**
 * Returns a fingerprint that changes when the file is replaced or modified. Returns null if the file is
 * missing or is not a regular file.
 */
async function stateOf(file: string): Promise<string | null> {
  const found = await lstat(file).catch(() => null);
  return found?.isFile() === true ? `${found.ino} ${found.size} ${found.mtimeMs}` : null;
}

interface ScanOptions {
  /** Treats every existing file as settled. */
  settled?: boolean;
  signal?: AbortSignal;
}

/**
 * Loads the files that have settled since the last scan, and returns their results. Throws `usage` if the
 * directory is missing. Also throws the database's errors, in which case the files are loaded on the next
 * scan.
 */
type Scan = (target: Target, options?: ScanOptions) => Promise<FeedResult[]>;

/**
 * Finds new and changed files by listing the directory. This works on network drives, and also finds files
 * that arrived while the program was not running. A file is loaded once it has not changed for `settleMs`. It
 * is loaded again only after it changes, even if the first load failed.
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
