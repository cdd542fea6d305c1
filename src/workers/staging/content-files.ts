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
import { blockingDisk, type Disk } from '../../core/lib/disk.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

/*
 * A kept file is a hard link to a staged file, at `<pipeline>/<two digits>/<digest>`. Neither of them is ever
 * written to. Since links are created atomically, a crash cannot leave a partial file behind. All bytes are
 * hashed again before they are used. Other files in this directory are left alone.
 */
const fileForm = /^[0-9a-f]{64}$/;
const shardForm = /^[0-9a-f]{2}$/;

interface FoundFile {
  pipelineId: string;
  digest: Digest;
  size: number;
  /**
   * The time at which the file was last linked or unlinked, in milliseconds. It is roughly the time of its
   * last use.
   */
  usedAt: number;
}

/** The kept files in one of this process's directories. Disk operations run in the order of the calls. */
export interface ContentFiles {
  /** Lists all files, least recently used first, and deletes empty directories. */
  read(): Promise<FoundFile[]>;
  /** Keeps `file` by creating a hard link to it. Throws system errors. */
  link(pipelineId: string, digest: Digest, file: string): Promise<void>;
  /**
   * Links a kept file to the path `file`. Returns false if there is no such file or it cannot be linked.
   * Throws if the disk is full.
   */
  place(pipelineId: string, digest: Digest, file: string): Promise<boolean>;
  /** Deletes a kept file, and its directory if that is then empty. Throws system errors. */
  remove(pipelineId: string, digest: Digest): Promise<void>;
}

/** Files are checked synchronously, so yield to the event loop after this many. */
const filesPerYield = 512;

export function contentFiles(directory: string, disk: Disk = blockingDisk): ContentFiles {
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
    remove: (pipelineId, digest) => disk.removeWithEmptyParent(placeOf(pipelineId, digest)),
  };
}

async function directoriesIn(place: string, form = /./): Promise<string[]> {
  const entries = await readdir(place, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && form.test(entry.name)).map(({ name }) => name);
}

async function removeIfEmpty(place: string): Promise<void> {
  await rmdir(place).catch(() => undefined);
}

/** Up to this size, files are read synchronously in a single call, which is a lot faster. */
const smallFileBytes = 1 << 16;
const chunkBytes = 1 << 20;
/**
 * Errors that are not the file's fault: the process has too many files open, or the machine is out of memory.
 */
export const temporaryErrors: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']);

/**
 * Hashes a file. Returns null if it cannot be read. If the error is only temporary or `signal` aborts,
 * throws.
 */
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
    if (code === undefined || temporaryErrors.has(code)) throw error;
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

/** An in-memory index of a pipeline's kept files, sorted by when they are due to be deleted. */
export interface PipelineCache {
  readonly size: number;
  /** The disk space that the files take up. */
  readonly bytes: number;
  /**
   * The time at which the least recently used file was last used, in milliseconds. Infinity if there is none.
   */
  readonly oldest: number;
  has(digest: Digest): boolean;
  /** Updates the time of the file's last use. Returns false if there is no such file. */
  use(digest: Digest, now: number): boolean;
  /**
   * Adds a file, and returns the files to delete first. Returns null and does nothing if the file is larger
   * than the limit. `maxBytes` is the current limit, which may be different from the last time.
   */
  add(file: { digest: Digest; size: number }, now: number, maxBytes: number): Digest[] | null;
  drop(digest: Digest): void;
  /**
   * Drops files that have not been used since `usedAt`, least recently used first. Stops after `limits.files`
   * of them, or once `limits.bytes` have been freed. Returns the dropped files. Times are in milliseconds.
   */
  expire(usedAt: number, limits: { files: number; bytes?: number }): Digest[];
}

const blockBytes = 4096;

/**
 * Returns the disk space that a file uses, in whole blocks. Even an empty file counts as one block, which
 * limits the number of files.
 */
export function allocatedBytes(size: number): number {
  return Math.max(1, Math.ceil(size / blockBytes)) * blockBytes;
}

export function minRecentlyUsed(): PipelineCache {
  /** The least recently used file comes first. */
  const files = new Map<Digest, { room: number; usedAt: number }>();
  let bytes = 0;

  const drop = (digest: Digest): void => {
    bytes -= files.get(digest)?.room ?? 0;
    files.delete(digest);
  };
  const dropWhile = (isToGo: (usedAt: number, count: number) => boolean): Digest[] => {
    const evicted: Digest[] = [];
    for (const [digest, { usedAt }] of files) {
      if (!isToGo(usedAt, evicted.length)) break;
      drop(digest);
      evicted.push(digest);
    }
    return evicted;
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
      const room = allocatedBytes(size);
      if (room > maxBytes) return null;
      drop(digest);
      const evicted = dropWhile(() => bytes + room > maxBytes);
      files.set(digest, { room, usedAt: now });
      bytes += room;
      return evicted;
    },
    drop,
    expire: (latest, limits) => {
      const before = bytes;
      const enough = limits.bytes ?? Infinity;
      return dropWhile(
        (usedAt, count) => usedAt <= latest && count < limits.files && before - bytes < enough,
      );
    },
  };
}
