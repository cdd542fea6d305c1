import { setImmediate as nextTurn } from 'node:timers/promises';
import type { BundleContent, CachedFile } from '../../core/bundle/complete-bundle.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { blockingDisk, type Disk, writeBehind } from '../../core/lib/disk.ts';
import { neverYield, type YieldToEventLoop } from '../../core/lib/event-loop.ts';
import type { Log } from '../../core/lib/log.ts';
import { claimDirectory, type ClaimedDirectory, claimStale } from './claimed-directory.ts';
import {
  type ContentFiles,
  contentFiles,
  measureFile,
  minRecentlyUsed,
  type PipelineCache,
} from './content-files.ts';
import { type ContentLimits, shortageAt } from './content-limits.ts';

/**
 * Keeps the files of bundles that were uploaded, by digest, so that producers do not have to upload unchanged
 * files again. Every pipeline has its own files and its own limit. When the limit is reached, the files that
 * have not been used for the longest time are deleted. Files survive a restart, and belong to one process at
 * a time.
 */
export interface ContentStore {
  /** False if no files are kept at all. */
  readonly isEnabled: boolean;
  /** Returns the digests for which the pipeline has no file. The files of the others count as used now. */
  missing(pipelineId: string, digests: readonly Digest[]): Digest[];
  /** Gives access to a pipeline's kept files. With `keeps: false`, no new ones are added. */
  forPipeline(pipelineId: string, options?: { keeps: boolean }): BundleContent;
  /** Deletes all files because the disk is full. Producers can upload them again. */
  clear(): Promise<void>;
  stats(): { files: number; bytes: number };
  close(): Promise<void>;
}

export interface ContentOptions extends ContentLimits {
  /**
   * The staging directory on this machine. Kept files are hard links to the files in it.
   */
  staging: string;
  clock: Clock;
  log: Log;
  /** Returns how many bytes have to be freed on a directory's disk. Only replaced in tests. */
  shortage?: (directory: string) => Promise<number>;
  /** Called before each file is added, to give other work a chance to run. Default: does not yield. */
  yieldToEventLoop?: YieldToEventLoop;
  /** The disk that `staging` is on. By default, disk calls block the process. */
  disk?: Disk;
}

/** The name of this store's directory in the staging directory. */
const directoryName = 'content';
const sweepMs = 60_000;
/** After deleting this many files, yield to the event loop. */
const filesPerYield = 64;

/**
 * Opens the store. It starts out with the files of earlier processes, as far as they are readable and within
 * the limits.
 */
export async function openContentStore(options: ContentOptions): Promise<ContentStore> {
  const store = new LinkedContent(options);
  await store.takeOver();
  return store;
}

interface Opened extends ClaimedDirectory {
  files: ContentFiles;
}

class LinkedContent implements ContentStore {
  readonly isEnabled: boolean;
  readonly #options: ContentOptions;
  readonly #pipelines = new Map<string, PipelineCache>();
  readonly #sweeper: { cancel(): void };
  /** The kinds of errors that have been logged already. */
  readonly #loggedKinds = new Set<string>();
  #opened: Opened | null = null;
  #opening: Promise<Opened> | null = null;
  #freeingSpace: Promise<void> | null = null;

  constructor(options: ContentOptions) {
    const { clock, isEnabled, ageMs } = options;
    this.#options = options;
    this.isEnabled = isEnabled;
    this.#sweeper = clock.every(Math.min(sweepMs, ageMs), () => void this.#sweep(), { unref: true });
  }

  /** Takes over the files of processes that have ended. */
  async takeOver(): Promise<void> {
    try {
      const [first, ...others] = await claimStale(this.#request);
      for (const other of others) {
        const files = contentFiles(other.directory, this.#disk);
        for (const { pipelineId, digest } of await files.read()) await files.remove(pipelineId, digest);
        await files.read(); // Deletes directories that are now empty.
        await other.release();
      }
      if (first !== undefined) this.#opened = await this.#read(first);
      await this.#sweep();
    } catch (error) {
      this.#warn(error);
    }
  }

  missing(pipelineId: string, digests: readonly Digest[]): Digest[] {
    const cache = this.#pipelines.get(pipelineId);
    return digests.filter((digest) => cache?.use(digest, this.#now()) !== true);
  }

  forPipeline(pipelineId: string, { keeps } = { keeps: true }): BundleContent {
    return {
      place: (digest, file, signal) => this.#place(pipelineId, { digest, file, signal }),
      keep: async (added) => {
        if (this.isEnabled && keeps)
          await this.#keep(pipelineId, added).catch((error: unknown) => this.#warn(error));
      },
    };
  }

  async clear(): Promise<void> {
    for (const pipelineId of [...this.#pipelines.keys()]) await this.#expire(pipelineId, Infinity);
  }

  stats(): { files: number; bytes: number } {
    const all = [...this.#pipelines.values()];
    const sum = (pick: (cache: PipelineCache) => number): number =>
      all.reduce((total, cache) => total + pick(cache), 0);
    return { files: sum(({ size }) => size), bytes: sum(({ bytes }) => bytes) };
  }

  async close(): Promise<void> {
    this.#sweeper.cancel();
    await this.#opening?.catch(() => null);
    await this.#opened?.release();
  }

  get #request(): Parameters<typeof claimDirectory>[0] {
    const { staging, clock } = this.#options;
    return { parent: staging, name: directoryName, clock };
  }

  get #disk(): Disk {
    return this.#options.disk ?? blockingDisk;
  }

  #now(): number {
    return this.#options.clock.now().getTime();
  }

  async #claim(): Promise<Opened> {
    if (this.#opened !== null) return this.#opened;
    this.#opening ??= claimDirectory(this.#request)
      .then((claimed) => this.#read(claimed))
      .finally(() => (this.#opening = null));
    return (this.#opened = await this.#opening);
  }

  /** Reads a directory that this process has claimed, and adds its files to the index. */
  async #read(claimed: ClaimedDirectory): Promise<Opened> {
    const files = contentFiles(claimed.directory, this.#disk);
    try {
      for (const file of await files.read()) {
        const { pipelineId, digest, usedAt } = file;
        const evicted = this.#cacheOf(pipelineId).add(file, usedAt, this.#options.maxBytes(pipelineId));
        await this.#remove(files, pipelineId, evicted ?? [digest]);
      }
      return { ...claimed, files };
    } catch (error) {
      await claimed.release();
      throw error;
    }
  }

  #cacheOf(pipelineId: string): PipelineCache {
    let cache = this.#pipelines.get(pipelineId);
    if (cache === undefined) this.#pipelines.set(pipelineId, (cache = minRecentlyUsed()));
    return cache;
  }

  async #place(
    pipelineId: string,
    { digest, file, signal }: { digest: Digest; file: string; signal: AbortSignal | undefined },
  ): Promise<number | null> {
    if (this.#opened === null || this.#pipelines.get(pipelineId)?.has(digest) !== true) return null;
    const { files } = this.#opened;
    if (await files.place(pipelineId, digest, file)) {
      const found = await measureFile(file, signal);
      if (found?.digest === digest) {
        this.#pipelines.get(pipelineId)?.use(digest, this.#now());
        return found.size;
      }
      await this.#disk.remove(file);
      const { log } = this.#options;
      log.warn({ pipeline_id: pipelineId, digest }, 'a kept file was damaged and is no longer kept');
    }
    this.#pipelines.get(pipelineId)?.drop(digest);
    await this.#remove(files, pipelineId, [digest]);
    return null;
  }

  /**
   * Adds files. Stops and throws the system error when one fails, because the next one would fail as well.
   */
  async #keep(pipelineId: string, added: Iterable<CachedFile>): Promise<void> {
    const { files } = await this.#claim();
    const { yieldToEventLoop: pause = neverYield } = this.#options;
    const links = writeBehind();
    for (const file of added) {
      await pause();
      const cache = this.#cacheOf(pipelineId);
      if (cache.use(file.digest, this.#now())) continue;
      // The disk executes calls in order, so old files are deleted before the new one is added, and the limit
      // is never exceeded.
      const evicted = cache.add(file, this.#now(), this.#options.maxBytes(pipelineId));
      if (evicted === null) continue;
      void this.#remove(files, pipelineId, evicted);
      const link = files.link(pipelineId, file.digest, file.file).catch((error: unknown) => {
        cache.drop(file.digest);
        // If the disk did not respond in time, it may still create the link later.
        void this.#remove(files, pipelineId, [file.digest]);
        throw error;
      });
      await links.add(0, link);
    }
    await links.done();
    await this.#freeSpace();
  }

  /** Deletes kept files, and logs errors. Never rejects. */
  async #remove(files: ContentFiles, pipelineId: string, digests: Iterable<Digest>): Promise<void> {
    const { log } = this.#options;
    const removals = [...digests].map((digest) =>
      files
        .remove(pipelineId, digest)
        .catch((error: unknown) => log.error({ err: error }, 'a kept file could not be removed')),
    );
    await Promise.all(removals);
  }

  async #sweep(): Promise<void> {
    const oldest = this.#now() - this.#options.ageMs;
    for (const pipelineId of [...this.#pipelines.keys()]) await this.#expire(pipelineId, oldest);
    await this.#freeSpace().catch((error: unknown) => this.#warn(error));
  }

  /** Deletes the files that have not been used since `oldest`. */
  async #expire(pipelineId: string, oldest: number): Promise<void> {
    for (;;) {
      const cache = this.#pipelines.get(pipelineId);
      if (cache === undefined || this.#opened === null) return;
      await this.#remove(this.#opened.files, pipelineId, cache.expire(oldest, { files: filesPerYield }));
      if (cache.size === 0) this.#pipelines.delete(pipelineId);
      if (cache.oldest > oldest || cache.size === 0) return;
      await nextTurn();
    }
  }

  /** If the disk is almost full, deletes the least recently used files of all pipelines. */
  #freeSpace(): Promise<void> {
    return (this.#freeingSpace ??= this.#evictOldest().finally(() => (this.#freeingSpace = null)));
  }

  async #evictOldest(): Promise<void> {
    if (this.#opened === null) return;
    const { directory, files } = this.#opened;
    let missingBytes = await (this.#options.shortage ?? shortageAt)(directory);
    while (missingBytes > 0) {
      const all = [...this.#pipelines].sort(([, a], [, b]) => a.oldest - b.oldest);
      const [first, second] = all;
      if (first === undefined || first[1].size === 0) return;
      const [pipelineId, cache] = first;
      const before = cache.bytes;
      const until = second?.[1].oldest ?? Infinity;
      await this.#remove(
        files,
        pipelineId,
        cache.expire(until, { files: filesPerYield, bytes: missingBytes }),
      );
      missingBytes -= before - cache.bytes;
      await nextTurn();
    }
  }

  /**
   * Logs an error, but only once per kind. It would come up again with every upload, and uploads work fine
   * without kept files.
   */
  #warn(error: unknown): void {
    const kind = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    if (this.#loggedKinds.has(kind)) return;
    this.#loggedKinds.add(kind);
    this.#options.log.warn({ err: error }, 'uploaded files cannot be kept for later uploads');
  }
}
