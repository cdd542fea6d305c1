import { setImmediate as nextTurn } from 'node:timers/promises';
import type { BundleContent, CachedFile } from '../../core/bundle/complete-bundle.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { type Disk, waitingDisk, writeBehind } from '../../core/lib/disk.ts';
import { neverYield, type YieldToEventLoop } from '../../core/lib/event-loop.ts';
import type { Log } from '../../core/lib/log.ts';
import { claimDirectory, type ClaimedDirectory, claimLeft } from './claimed-directory.ts';
import { type ContentBounds, shortageAt } from './content-bounds.ts';
import {
  type ContentFiles,
  contentFiles,
  measureFile,
  minRecentlyUsed,
  type PipelineCache,
} from './content-files.ts';

/**
 * Keeps files of received bundles by digest, so that producers do not need to resend unchanged files. Each
 * pipeline has its own files and limit. The least recently used files are removed first. Kept files outlive
 * the process, and belong to one process at a time.
 */
export interface ContentStore {
  /** True if any files are kept. */
  readonly isOn: boolean;
  /** Returns the digests that are not kept for the pipeline. Marks the others as used now. */
  missing(pipelineId: string, digests: readonly Digest[]): Digest[];
  /** Returns the pipeline's kept files. With `keeps: false`, no files are added. */
  of(pipelineId: string, options?: { keeps: boolean }): BundleContent;
  /** Removes all files because the disk is full. Producers can send them again. */
  clear(): Promise<void>;
  stats(): { files: number; bytes: number };
  close(): Promise<void>;
}

export interface ContentOptions extends ContentBounds {
  /** Staging directory on this machine. Staged files are linked from here. */
  staging: string;
  clock: Clock;
  log: Log;
  /** Returns how many bytes of the reserve are missing on a directory's disk. Replaced only by tests. */
  shortage?: (directory: string) => Promise<number>;
  /** Called before each added file, to share the event loop. Default: does not yield. */
  yieldToEventLoop?: YieldToEventLoop;
  /** The disk that holds `staging`. Default: calls block the process. */
  disk?: Disk;
}

/** Name of the directory below the staging directory. */
const directoryName = 'content';
const sweepMs = 60_000;
/** Number of files removed between two yields to the event loop. */
const filesPerYield = 64;

/** Opens the store with the readable files of earlier processes, within the limits. */
export async function openContentStore(options: ContentOptions): Promise<ContentStore> {
  const store = new LinkedContent(options);
  await store.takeUp();
  return store;
}

interface Opened extends ClaimedDirectory {
  files: ContentFiles;
}

class LinkedContent implements ContentStore {
  readonly isOn: boolean;
  readonly #options: ContentOptions;
  readonly #pipelines = new Map<string, PipelineCache>();
  readonly #sweeper: { cancel(): void };
  /** Kinds of errors that were already logged. */
  readonly #loggedKinds = new Set<string>();
  #opened: Opened | null = null;
  #opening: Promise<Opened> | null = null;
  #freeingSpace: Promise<void> | null = null;

  constructor(options: ContentOptions) {
    const { clock, isOn, ageMs } = options;
    this.#options = options;
    this.isOn = isOn;
    this.#sweeper = clock.every(Math.min(sweepMs, ageMs), () => void this.#sweep(), { unref: true });
  }

  /** Takes over the files of processes that have ended. */
  async takeUp(): Promise<void> {
    try {
      const [first, ...others] = await claimLeft(this.#request);
      for (const other of others) {
        const files = contentFiles(other.directory, this.#disk);
        for (const { pipelineId, digest } of await files.read()) await files.remove(pipelineId, digest);
        await files.read(); // Removes directories that are now empty.
        await other.release();
      }
      if (first !== undefined) this.#opened = await this.#read(first);
      await this.#sweep();
    } catch (error) {
      this.#warn(error);
    }
  }

  missing(pipelineId: string, digests: readonly Digest[]): Digest[] {
    const kept = this.#pipelines.get(pipelineId);
    return digests.filter((digest) => kept?.use(digest, this.#now()) !== true);
  }

  of(pipelineId: string, { keeps } = { keeps: true }): BundleContent {
    return {
      place: (digest, file, signal) => this.#place(pipelineId, { digest, file, signal }),
      keep: async (added) => {
        if (this.isOn && keeps)
          await this.#keep(pipelineId, added).catch((error: unknown) => this.#warn(error));
      },
    };
  }

  async clear(): Promise<void> {
    for (const pipelineId of [...this.#pipelines.keys()]) await this.#expire(pipelineId, Infinity);
  }

  stats(): { files: number; bytes: number } {
    const all = [...this.#pipelines.values()];
    const sum = (pick: (kept: PipelineCache) => number): number =>
      all.reduce((total, kept) => total + pick(kept), 0);
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
    return this.#options.disk ?? waitingDisk;
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

  /** Reads a directory that this process has claimed, and adds its files. */
  async #read(claimed: ClaimedDirectory): Promise<Opened> {
    const files = contentFiles(claimed.directory, this.#disk);
    try {
      for (const file of await files.read()) {
        const { pipelineId, digest, usedAt } = file;
        const gone = this.#cacheOf(pipelineId).add(file, usedAt, this.#options.maxBytes(pipelineId));
        await this.#remove(files, pipelineId, gone ?? [digest]);
      }
      return { ...claimed, files };
    } catch (error) {
      await claimed.release();
      throw error;
    }
  }

  #cacheOf(pipelineId: string): PipelineCache {
    let kept = this.#pipelines.get(pipelineId);
    if (kept === undefined) this.#pipelines.set(pipelineId, (kept = minRecentlyUsed()));
    return kept;
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
      log.warn({ pipeline_id: pipelineId, digest }, 'a kept file was damaged, and is not kept any more');
    }
    this.#pipelines.get(pipelineId)?.drop(digest);
    await this.#remove(files, pipelineId, [digest]);
    return null;
  }

  /** Throws the system error and stops, because the next file would fail the same way. */
  async #keep(pipelineId: string, added: Iterable<CachedFile>): Promise<void> {
    const { files } = await this.#claim();
    const { yieldToEventLoop: pause = neverYield } = this.#options;
    const links = writeBehind();
    for (const file of added) {
      await pause();
      const kept = this.#cacheOf(pipelineId);
      if (kept.use(file.digest, this.#now())) continue;
      // Removals come first, and the disk preserves the order, so the limit is never exceeded.
      const gone = kept.add(file, this.#now(), this.#options.maxBytes(pipelineId));
      if (gone === null) continue;
      void this.#remove(files, pipelineId, gone);
      const link = files.link(pipelineId, file.digest, file.file).catch((error: unknown) => {
        kept.drop(file.digest);
        // A disk that did not respond in time may still create the link.
        void this.#remove(files, pipelineId, [file.digest]);
        throw error;
      });
      await links.add(0, link);
    }
    await links.done();
    await this.#freeSpace();
  }

  /** Never rejects. */
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

  /** Removes files last used at or before `oldest`. */
  async #expire(pipelineId: string, oldest: number): Promise<void> {
    for (;;) {
      const kept = this.#pipelines.get(pipelineId);
      if (kept === undefined || this.#opened === null) return;
      await this.#remove(this.#opened.files, pipelineId, kept.expire(oldest, { files: filesPerYield }));
      if (kept.size === 0) this.#pipelines.delete(pipelineId);
      if (kept.oldest > oldest || kept.size === 0) return;
      await nextTurn();
    }
  }

  /** If the disk is low on space, removes the least recently used files across all pipelines. */
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
      const [pipelineId, kept] = first;
      const before = kept.bytes;
      const until = second?.[1].oldest ?? Infinity;
      await this.#remove(
        files,
        pipelineId,
        kept.expire(until, { files: filesPerYield, bytes: missingBytes }),
      );
      missingBytes -= before - kept.bytes;
      await nextTurn();
    }
  }

  /**
   * Logs each kind of error once. The error recurs with every upload, but uploads succeed without kept files.
   */
  #warn(error: unknown): void {
    const kind = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    if (this.#loggedKinds.has(kind)) return;
    this.#loggedKinds.add(kind);
    this.#options.log.warn({ err: error }, 'uploaded files cannot be kept for later uploads');
  }
}
