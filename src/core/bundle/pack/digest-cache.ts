import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Digest, parseDigest } from '../../lib/digest.ts';
import type { Log } from '../../lib/log.ts';
import type { Stamp } from '../../storage/storage.ts';

/*
 * Caches the digests of a source's files, so that a directory can be published again without reading the
 * files that have not changed. The cache is a JSON file for each source, in a directory that can be deleted
 * at any time.
 */

/**
 * If a file was modified this shortly before it was listed, it may change again without getting a new stamp,
 * so it is not cached. git does the same.
 */
const racyMs = 2_000;
/** How many sources to cache. The ones that have not changed for the longest time are removed. */
const maxSources = 64;

export interface DigestCache {
  /** Returns the digest, or undefined if this version of the file is not cached. */
  digestOf(file: string, stamp: Stamp | null): Digest | undefined;
  /**
   * Replaces the cached digests with the digests of these files. Does nothing if no file was `read` and the
   * cache has no other files. Never throws, since without the cache, files are simply read again.
   */
  keep(
    files: readonly { path: string; stamp: Stamp | null }[],
    digests: ReadonlyMap<string, Digest>,
    how: { listedAt: Date; read: number },
  ): void;
}

/** Opens the cache of a source. If it is missing or damaged, starts with an empty one. */
export function openDigestCache(directory: string, source: string, log: Log): DigestCache {
  const name = `${createHash('sha256').update(source).digest('hex').slice(0, 32)}.json`;
  const file = path.join(directory, name);
  const known = readKnown(file, source);
  return {
    digestOf: (each, stamp) => {
      const found = stamp === null ? undefined : known.get(each);
      return found !== undefined && found.id === stamp?.id ? found.digest : undefined;
    },
    keep(files, digests, { listedAt, read }) {
      if (read === 0 && files.length === known.size) return;
      const kept = new Map<string, CachedDigest>();
      for (const { path: each, stamp } of files) {
        const digest = digests.get(each);
        if (stamp !== null && digest !== undefined && isSettled(stamp, listedAt))
          kept.set(each, { id: stamp.id, digest });
      }
      if (kept.size + known.size === 0) return;
      try {
        writeKnown(file, source, kept);
        removeOldest(directory);
      } catch (error) {
        log.debug({ err: error, file }, 'writing the digest cache failed');
      }
    },
  };
}

/** Caches nothing, for sources without a cache. */
export const noDigestCache: DigestCache = { digestOf: () => undefined, keep: () => undefined };

interface CachedDigest {
  /** The stamp's id. */
  id: string;
  digest: Digest;
}

function isSettled({ isExact, modifiedAt }: Stamp, listedAt: Date): boolean {
  return isExact || modifiedAt.getTime() < listedAt.getTime() - racyMs;
}

function readKnown(file: string, source: string): Map<string, CachedDigest> {
  const known = new Map<string, CachedDigest>();
  try {
    const { version, source: of, files } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Document>;
    if (version !== 1 || of !== source || !Array.isArray(files)) return known;
    for (const [each, id, text] of files) {
      const digest = parseDigest(text);
      if (digest !== undefined) known.set(each, { id, digest });
    }
    return known;
  } catch {
    return new Map();
  }
}

interface Document {
  version: 1;
  source: string;
  files: [path: string, id: string, digest: string][];
}

function writeKnown(file: string, source: string, known: ReadonlyMap<string, CachedDigest>): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const files = [...known].map(([each, { id, digest }]): [string, string, string] => [each, id, digest]);
  const document: Document = { version: 1, source, files };
  const written = `${file}.${randomUUID()}`;
  try {
    writeFileSync(written, JSON.stringify(document), { mode: 0o600 });
    renameSync(written, file);
  } catch (error) {
    rmSync(written, { force: true });
    throw error;
  }
}

function removeOldest(directory: string): void {
  const names = readdirSync(directory).filter((name) => name.includes('.json'));
  if (names.length <= maxSources) return;
  names
    .map((name) => path.join(directory, name))
    .map((file) => ({ file, at: statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.at - a.at)
    .slice(maxSources)
    .forEach(({ file }) => rmSync(file, { force: true }));
}
