import { rm } from 'node:fs/promises';
import type { BundleContent } from '../../core/bundle/bundle-content.ts';
import type { Clock } from '../../core/clock.ts';
import type { Digest } from '../../core/digest.ts';
import type { Log } from '../../core/log.ts';
import { claimDirectory, type ClaimedDirectory } from '../claimed-directory.ts';
import { contentFiles, measureFile, type ContentFiles } from './content-files.ts';
import { leastRecentlyUsed, type KeptOfPipeline } from './least-recently-used.ts';

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
  clear(): void;
  stats(): { files: number; bytes: number };
  close(): Promise<void>;
}

export interface ContentOptions {
  /** Where uploads are staged on this machine; links are made of what lies there. */
  staging: string;
  clock: Clock;
  log: Log;
  /** Of each pipeline; 0 bytes: nothing is kept. */
  settings: { mostBytes: number; ageMs: number };
}

/** The directory below staging. */
const directoryName = 'content';
const sweepMs = 60_000;
/** Small files are kept without waiting for anything: now and then, others get their turn. */
const filesAtOnce = 64;

interface Opened extends ClaimedDirectory {
  files: ContentFiles;
}

/** Takes up what an earlier process kept, as far as it is within the bounds. Throws the system's error. */
export async function openContentStore({
  staging,
  clock,
  log,
  settings: { mostBytes, ageMs },
}: ContentOptions): Promise<ContentStore> {
  const pipelines = new Map<string, KeptOfPipeline>();
  const isOn = mostBytes > 0;
  const open = async (isMade: boolean): Promise<Opened | null> => {
    const claimed = await claimDirectory(staging, directoryName, isMade);
    return claimed === null ? null : { ...claimed, files: contentFiles(claimed.directory) };
  };
  let opened = await open(false);
  let opening: Promise<Opened | null> | null = null;
  const now = (): number => clock.now().getTime();

  const keptOf = (pipelineId: string): KeptOfPipeline => {
    let kept = pipelines.get(pipelineId);
    if (kept === undefined) pipelines.set(pipelineId, (kept = leastRecentlyUsed(mostBytes)));
    return kept;
  };
  const remove = (pipelineId: string, digests: Iterable<Digest>): void => {
    for (const digest of digests)
      try {
        opened?.files.remove(pipelineId, digest);
      } catch (error) {
        log.error({ err: error }, 'a kept file could not be removed');
      }
  };
  const claim = async (): Promise<Opened | null> => {
    if (opened !== null) return opened;
    opening ??= open(true).finally(() => (opening = null));
    return (opened = await opening);
  };
  const sweep = (): void => {
    for (const [pipelineId, kept] of pipelines) {
      remove(pipelineId, kept.expire(now() - ageMs));
      if (kept.size === 0) pipelines.delete(pipelineId);
    }
  };
  const clear = (): void => {
    for (const [pipelineId, kept] of pipelines) remove(pipelineId, kept.expire(Infinity));
    pipelines.clear();
  };

  if (opened !== null) {
    for (const { pipelineId, digest, size, usedAt } of await opened.files.read())
      remove(pipelineId, keptOf(pipelineId).add(digest, size, usedAt) ?? [digest]);
    sweep();
  }
  const sweeper = clock.every(Math.min(sweepMs, ageMs), sweep, { unref: true });

  const of = (pipelineId: string, { keeps } = { keeps: true }): BundleContent => ({
    place: async (digest, file) => {
      if (opened === null || pipelines.get(pipelineId)?.has(digest) !== true) return null;
      const { files } = opened;
      if (files.place(pipelineId, digest, file)) {
        const found = await measureFile(file);
        if (found?.digest === digest) {
          pipelines.get(pipelineId)?.use(digest, now());
          return found.size;
        }
        await rm(file, { force: true });
        log.warn({ pipeline_id: pipelineId, digest }, 'a kept file was damaged, and is not kept any more');
      }
      pipelines.get(pipelineId)?.drop(digest);
      remove(pipelineId, [digest]);
      return null;
    },
    keep: async (added) => {
      if (!isOn || !keeps) return;
      const claimed = await claim().catch((error: unknown) => {
        log.warn({ err: error }, 'what was uploaded cannot be kept for later uploads');
        return null;
      });
      if (claimed === null) return;
      let count = 0;
      for (const { digest, size, file } of added) {
        count += 1;
        if (count % filesAtOnce === 0) await new Promise((resolve) => setImmediate(resolve));
        const kept = keptOf(pipelineId);
        if (kept.has(digest)) {
          kept.use(digest, now());
          continue;
        }
        // First what goes: at no moment is there more than there may be.
        const gone = kept.add(digest, size, now());
        if (gone === null) continue;
        remove(pipelineId, gone);
        if (!linked(claimed.files, pipelineId, digest, file)) kept.drop(digest);
      }
    },
  });

  const linked = (files: ContentFiles, pipelineId: string, digest: Digest, file: string): boolean => {
    try {
      return files.link(pipelineId, digest, file);
    } catch (error) {
      log.warn({ err: error }, 'what was uploaded cannot be kept for later uploads');
      return false;
    }
  };

  return {
    isOn,
    missing: (pipelineId, digests) => {
      const kept = pipelines.get(pipelineId);
      return digests.filter((digest) => kept?.use(digest, now()) !== true);
    },
    of,
    clear,
    stats: () => {
      const all = [...pipelines.values()];
      const sum = (pick: (kept: KeptOfPipeline) => number): number =>
        all.reduce((total, kept) => total + pick(kept), 0);
      return { files: sum(({ size }) => size), bytes: sum(({ bytes }) => bytes) };
    },
    close: async () => {
      sweeper.cancel();
      await opening?.catch(() => null);
      await opened?.release();
    },
  };
}
