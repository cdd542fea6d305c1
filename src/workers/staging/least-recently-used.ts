import type { Digest } from '../../core/lib/digest.ts';

/** What is kept of one pipeline, as values: which files, and which of them go first. */
export interface KeptOfPipeline {
  readonly size: number;
  /** Room that the files take. */
  readonly bytes: number;
  /** When the file of least use was of use, in milliseconds; Infinity if there is none. */
  readonly oldest: number;
  has(digest: Digest): boolean;
  /** The file is of use now; false if it is not kept. */
  use(digest: Digest, now: number): boolean;
  /**
   * Keeps one more file, and returns those that have to go before it comes; null if it has no room at all,
   * and nothing goes. `mostBytes`: the bound, which may have changed.
   */
  add(file: { digest: Digest; size: number }, now: number, mostBytes: number): Digest[] | null;
  drop(digest: Digest): void;
  /**
   * Drops files that were of no use since `usedAt`, those of least use first: `most`, or as many as free so
   * much room. Returns them. Times in milliseconds.
   */
  expire(usedAt: number, most: { files: number; bytes?: number }): Digest[];
}

const blockBytes = 4096;

/**
 * What a file takes of the bound: whole blocks, and at least one, so that empty files are bounded, too. Pure.
 */
export function roomOf(size: number): number {
  return Math.max(1, Math.ceil(size / blockBytes)) * blockBytes;
}

export function leastRecentlyUsed(): KeptOfPipeline {
  /** Of least use first. */
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
    add: ({ digest, size }, now, mostBytes) => {
      const room = roomOf(size);
      if (room > mostBytes) return null;
      drop(digest);
      const gone = dropWhile(() => bytes + room > mostBytes);
      files.set(digest, { room, usedAt: now });
      bytes += room;
      return gone;
    },
    drop,
    expire: (latest, most) => {
      const [before, enough] = [bytes, most.bytes ?? Infinity];
      return dropWhile((usedAt, gone) => usedAt <= latest && gone < most.files && before - bytes < enough);
    },
  };
}
