import { lstatSync, readFileSync } from 'node:fs';
import { open, readdir, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Digest,
  digestOf,
  finishDigest,
  hexOf,
  parseDigest,
  startDigest,
} from '../../core/lib/digest.ts';
import { type Disk, waitingDisk } from '../../core/lib/disk.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

/*
 * A kept file is `<pipeline>/<two digits>/<digest>`, a hard link to a staged file. Neither name is ever
 * written to. Linking is atomic, so a crash leaves either the whole file or none. The bytes are hashed before
 * use. Other files in the directory are not touched.
 */
const fileForm = /^[0-9a-f]{64}$/;
const shardForm = /^[0-9a-f]{2}$/;

interface FoundFile {
  pipelineId: string;
  digest: Digest;
  size: number;
  /** Time of the last link or unlink, in milliseconds. It approximates the last use. */
  usedAt: number;
}

/** The files below one of this process's directories. Disk operations run in call order. */
export interface ContentFiles {
  /** Returns all files, least recently used first. Removes empty directories. */
  read(): Promise<FoundFile[]>;
  /** Creates a hard link that keeps `file`. Throws the system error. */
  link(pipelineId: string, digest: Digest, file: string): Promise<void>;
  /**
   * Links a kept file to `file`. Returns false if the kept file is missing or cannot be linked. Throws if the
   * disk is full.
   */
  place(pipelineId: string, digest: Digest, file: string): Promise<boolean>;
  /** Removes a kept file. Throws the system error. */
  remove(pipelineId: string, digest: Digest): Promise<void>;
}

/** Files are examined synchronously. This is how many are examined between two yields to the event loop. */
const filesPerYield = 512;

export function contentFiles(directory: string, disk: Disk = waitingDisk): ContentFiles {
  const placeOf = (pipelineId: string, digest: Digest): string => {
    const hex = hexOf(digest);
    return path.join(directory, pipelineId, hex.slice(0, 2), hex);
  };

  async function* filesOf(pipelineId: string): AsyncGenerator<FoundFile> {
    const root = path.join(directory, pipelineId);
    for (const shard of await directoriesIn(root, shardForm)) {
      const place = path.join(root, shard);
      for (const entry of await readdir(place, { withFileTypes: true })) {
        const digest = parseDigest(`sha256:${entry.name}`);
        if (!fileForm.test(entry.name) || digest === undefined) continue;
        if (!entry.isFile() || !entry.name.startsWith(shard)) continue;
        const { size, ctimeMs } = lstatSync(path.join(place, entry.name));
        yield { pipelineId, digest, size, usedAt: ctimeMs };
      }
      await removeIfEmpty(place);
    }
    await removeIfEmpty(root);
  }

  return {
    read: async () => {
      const found: FoundFile[] = [];
      for (const pipelineId of await directoriesIn(directory))
        for await (const file of filesOf(pipelineId))
          if (found.push(file) % filesPerYield === 0) await nextTurn();
      return found.sort((a, b) => a.usedAt - b.usedAt);
    },
    link: (pipelineId, digest, file) => disk.linkInPlace(file, placeOf(pipelineId, digest)),
    place: (pipelineId, digest, file) => disk.linkOrCopy(placeOf(pipelineId, digest), file),
    remove: (pipelineId, digest) => disk.remove(placeOf(pipelineId, digest)),
  };
}

async function directoriesIn(place: string, form = /./): Promise<string[]> {
  const entries = await readdir(place, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && form.test(entry.name)).map(({ name }) => name);
}

async function removeIfEmpty(place: string): Promise<void> {
  await rmdir(place).catch(() => undefined);
}

/** Files up to this size are read synchronously in one call, which is much faster. */
const smallFileBytes = 1 << 16;
const chunkBytes = 1 << 20;
/**
 * Errors that the file did not cause: the process has too many open files, or the machine is low on memory.
 */
const passing = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']);

/** Returns null if the file cannot be read. Throws temporary system errors and the reason of `signal`. */
export async function measureFile(
  file: string,
  signal?: AbortSignal,
): Promise<{ size: number; digest: Digest } | null> {
  try {
    if (lstatSync(file).size > smallFileBytes) return await measureLarge(file, signal);
    const bytes = readFileSync(file);
    return { size: bytes.length, digest: digestOf(bytes) };
  } catch (error) {
    signal?.throwIfAborted();
    const code = errnoOf(error);
    if (code === undefined || passing.has(code)) throw error;
    return null;
  }
}

async function measureLarge(
  file: string,
  signal: AbortSignal | undefined,
): Promise<{ size: number; digest: Digest }> {
  const handle = await open(file, 'r');
  try {
    const hash = startDigest();
    const buffer = Buffer.allocUnsafe(chunkBytes);
    let size = 0;
    for (;;) {
      signal?.throwIfAborted();
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) return { size, digest: finishDigest(hash) };
      hash.update(buffer.subarray(0, bytesRead));
      size += bytesRead;
    }
  } finally {
    await handle.close();
  }
}

/** In-memory index of one pipeline's kept files, in the order in which they will be removed. */
export interface PipelineCache {
  readonly size: number;
  /** Disk space used by the files. */
  readonly bytes: number;
  /** Last use of the least recently used file, in milliseconds. Infinity if there is none. */
  readonly oldest: number;
  has(digest: Digest): boolean;
  /** Marks the file as used now. Returns false if it is not kept. */
  use(digest: Digest, now: number): boolean;
  /**
   * Adds a file. Returns the files to remove first. Returns null, and removes nothing, if the file would not
   * fit even alone. `maxBytes` is the current limit, which may have changed.
   */
  add(file: { digest: Digest; size: number }, now: number, maxBytes: number): Digest[] | null;
  drop(digest: Digest): void;
  /**
   * Drops files that were last used at or before `usedAt`, least recently used first. Drops at most `files`,
   * and enough to free `bytes`. Returns them. Times are in milliseconds.
   */
  expire(usedAt: number, limits: { files: number; bytes?: number }): Digest[];
}

const blockBytes = 4096;

/**
 * Returns the space that a file counts for: whole blocks, and at least one so that empty files are limited as
 * well.
 */
export function roomOf(size: number): number {
  return Math.max(1, Math.ceil(size / blockBytes)) * blockBytes;
}

export function minRecentlyUsed(): PipelineCache {
  /** Least recently used first. */
  const files = new Map<Digest, { room: number; usedAt: number }>();
  let bytes = 0;

  const drop = (digest: Digest): void => {
    bytes -= files.get(digest)?.room ?? 0;
    files.delete(digest);
  };
  const dropWhile = (isToGo: (usedAt: number, gone: number) => boolean): Digest[] => {
    const gone: Digest[] = [];
    for (const [digest, { usedAt }] of files) {
      if (!isToGo(usedAt, gone.length)) break;
      drop(digest);
      gone.push(digest);
    }
    return gone;
  };

  return {
    get size() {
      return files.size;
    },
    get bytes() {
      return bytes;
    },
    get oldest() {
      const [first] = files.values();
      return first?.usedAt ?? Infinity;
    },
    has: (digest) => files.has(digest),
    use: (digest, now) => {
      const file = files.get(digest);
      if (file === undefined) return false;
      files.delete(digest);
      files.set(digest, { ...file, usedAt: now });
      return true;
    },
    add: ({ digest, size }, now, maxBytes) => {
      const room = roomOf(size);
      if (room > maxBytes) return null;
      drop(digest);
      const gone = dropWhile(() => bytes + room > maxBytes);
      files.set(digest, { room, usedAt: now });
      bytes += room;
      return gone;
    },
    drop,
    expire: (latest, limits) => {
      const [before, enough] = [bytes, limits.bytes ?? Infinity];
      return dropWhile((usedAt, gone) => usedAt <= latest && gone < limits.files && before - bytes < enough);
    },
  };
}
