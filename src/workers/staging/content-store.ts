import { setImmediate as breathe } from 'node:timers/promises';
import type { BundleContent, KeptFile } from '../../core/bundle/complete-bundle.ts';
import { type Breathe, breathless } from '../../core/lib/breath.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { type Disk, waitingDisk, writeBehind } from '../../core/lib/disk.ts';
import type { Log } from '../../core/lib/log.ts';
import { claimDirectory, type ClaimedDirectory, claimLeft } from './claimed-directory.ts';
import { type ContentBounds, shortageAt } from './content-bounds.ts';
import {
  type ContentFiles,
  contentFiles,
  type KeptOfPipeline,
  measureFile,
  minRecentlyUsed,
} from './content-files.ts';

/**
 * Files of the bundles that pipelines have received, by digest, so that a producer need not send what has not
 * changed. Each pipeline has its own, and its own bound; what was not of use for longest goes first. They
 * outlive the process, and belong to one at a time.
 */
export interface ContentStore {
  /** Whether anything is ever kept. */
  readonly isOn: boolean;
  /** Those of the digests that are not kept for the pipeline. The others are of use now. */
  missing(pipelineId: string, digests: readonly Digest[]): Digest[];
  /** What is kept of one pipeline. With `keeps: false` nothing is added. */
  of(pipelineId: string, options?: { keeps: boolean }): BundleContent;
  /** Removes everything: the disk is full, and this can come again. */
  clear(): Promise<void>;
  stats(): { files: number; bytes: number };
  close(): Promise<void>;
}

export interface ContentOptions extends ContentBounds {
  /** Where uploads are staged on this machine; links are made of what lies there. */
  staging: string;
  clock: Clock;
  log: Log;
  /** How many bytes the disk of a directory lacks of what has to stay free. Only tests pass their own. */
  shortage?: (directory: string) => Promise<number>;
  /** Asked before each file that is kept; by default nobody else needs the event loop. */
  breathe?: Breathe;
  /** That of `staging`; by default it is waited for by everybody. */
  disk?: Disk;
}

/** The directory below staging. */
const directoryName = 'content';
const sweepMs = 60_000;
/** Files are removed without waiting for anything: now and then, others get their turn. */
const filesAtOnce = 64;

/** Takes up what earlier processes kept, as far as it is within the bounds and can be read. */
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
  readonly #pipelines = new Map<string, KeptOfPipeline>();
  readonly #sweeper: { cancel(): void };
  /** Kinds of errors that were told. */
  readonly #told = new Set<string>();
  #opened: Opened | null = null;
  #opening: Promise<Opened> | null = null;
  #makingRoom: Promise<void> | null = null;

  constructor(options: ContentOptions) {
    const { clock, isOn, ageMs } = options;
    this.#options = options;
    this.isOn = isOn;
    this.#sweeper = clock.every(Math.min(sweepMs, ageMs), () => void this.#sweep(), { unref: true });
  }

  /** What processes that have ended left. */
  async takeUp(): Promise<void> {
    try {
      const [first, ...others] = await claimLeft(this.#request);
      for (const other of others) {
        const files = contentFiles(other.directory, this.#disk);
        for (const { pipelineId, digest } of await files.read()) await files.remove(pipelineId, digest);
        await files.read(); // Of directories that are empty now.
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
    const sum = (pick: (kept: KeptOfPipeline) => number): number =>
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

  /** Of a directory that is this process's now: what is in it counts. */
  async #read(claimed: ClaimedDirectory): Promise<Opened> {
    const files = contentFiles(claimed.directory, this.#disk);
    try {
      for (const file of await files.read()) {
        const { pipelineId, digest, usedAt } = file;
        const gone = this.#keptOf(pipelineId).add(file, usedAt, this.#options.maxBytes(pipelineId));
        await this.#remove(files, pipelineId, gone ?? [digest]);
      }
      return { ...claimed, files };
    } catch (error) {
      await claimed.release();
      throw error;
    }
  }

  #keptOf(pipelineId: string): KeptOfPipeline {
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

  /** Throws the system's error, and asks for no more then: the same would keep the others from being kept. */
  async #keep(pipelineId: string, added: Iterable<KeptFile>): Promise<void> {
    const { files } = await this.#claim();
    const { breathe: asked = breathless } = this.#options;
    const links = writeBehind();
    for (const file of added) {
      await asked();
      const kept = this.#keptOf(pipelineId);
      if (kept.use(file.digest, this.#now())) continue;
      // First what goes, which the disk then does first: at no moment is there more than there may be.
      const gone = kept.add(file, this.#now(), this.#options.maxBytes(pipelineId));
      if (gone === null) continue;
      void this.#remove(files, pipelineId, gone);
      const link = files.link(pipelineId, file.digest, file.file).catch((error: unknown) => {
        kept.drop(file.digest);
        // A disk that has not answered in time may make the link after all.
        void this.#remove(files, pipelineId, [file.digest]);
        throw error;
      });
      await links.add(0, link);
    }
    await links.done();
    await this.#makeRoom();
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
    await this.#makeRoom().catch((error: unknown) => this.#warn(error));
  }

  /** Removes what was of no use since `oldest`. */
  async #expire(pipelineId: string, oldest: number): Promise<void> {
    for (;;) {
      const kept = this.#pipelines.get(pipelineId);
      if (kept === undefined || this.#opened === null) return;
      await this.#remove(this.#opened.files, pipelineId, kept.expire(oldest, { files: filesAtOnce }));
      if (kept.size === 0) this.#pipelines.delete(pipelineId);
      if (kept.oldest > oldest || kept.size === 0) return;
      await breathe();
    }
  }

  /** Where the disk is short of room, what was of no use for longest goes, of all pipelines. */
  #makeRoom(): Promise<void> {
    return (this.#makingRoom ??= this.#giveWay().finally(() => (this.#makingRoom = null)));
  }

  async #giveWay(): Promise<void> {
    if (this.#opened === null) return;
    const { directory, files } = this.#opened;
    let lacking = await (this.#options.shortage ?? shortageAt)(directory);
    while (lacking > 0) {
      const all = [...this.#pipelines].sort(([, a], [, b]) => a.oldest - b.oldest);
      const [first, second] = all;
      if (first === undefined || first[1].size === 0) return;
      const [pipelineId, kept] = first;
      const before = kept.bytes;
      const until = second?.[1].oldest ?? Infinity;
      await this.#remove(files, pipelineId, kept.expire(until, { files: filesAtOnce, bytes: lacking }));
      lacking -= before - kept.bytes;
      await breathe();
    }
  }

  /** Told once of each kind: it is the same with every upload, which goes on without. */
  #warn(error: unknown): void {
    const kind = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    if (this.#told.has(kind)) return;
    this.#told.add(kind);
    this.#options.log.warn({ err: error }, 'what was uploaded cannot be kept for later uploads');
  }
}
