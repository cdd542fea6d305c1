import { lstat, open, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { WatchConfig } from '../../../core/config/weather/feed.ts';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { feedDocument, type FeedResult, notFed } from '../feed-document.ts';
import type { Target } from '../tables/upsert.ts';

/** The largest file that is read, in bytes; the largest documents of NWS have some 10 MB. */
export const maxFileBytes = 64 * 1024 * 1024;

/**
 * Returns the files at a path: the file itself, or all files below a directory, sorted by name. Skips hidden
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
 * Loads one file. The outcome is `failed` if it cannot be read, is not a regular file, is too large or is
 * not UTF-8. Throws the errors of the database.
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

/** Returns the text of bytes that are UTF-8. */
export function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error('it is not UTF-8');
  }
}

async function bytesOf(file: string): Promise<Uint8Array> {
  // Checked before opening: opening a pipe would wait for a writer.
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
 * A fingerprint that changes when the file is replaced or modified, or null if it is missing or not a regular
 * file.
 */
async function stateOf(file: string): Promise<string | null> {
  const found = await lstat(file).catch(() => null);
  return found?.isFile() === true ? `${found.ino} ${found.size} ${found.mtimeMs}` : null;
}

interface ScanOptions {
  /** Treats every file that exists as settled. */
  settled?: boolean;
  signal?: AbortSignal;
}

/**
 * Loads the files that have settled since the last look, and returns their results. Throws `usage` if the
 * directory is missing, and the errors of the database; those files are loaded at the next look.
 */
type Scan = (target: Target, options?: ScanOptions) => Promise<FeedResult[]>;

/**
 * Looks for new and changed files by listing the directory. This works on network drives, and finds files
 * that arrived while the program was not running. Loads a file once it has not changed for `settleMs`.
 * Loads it again only after a change, even if the first load failed.
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
