import { statfs } from 'node:fs/promises';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { minRoom, provedAtMost, proveRoom } from './staging-check.ts';

/** Limits on the files kept for later uploads. */
export interface ContentBounds {
  /** True if any files are kept. */
  isOn: boolean;
  /** How long an unused file is kept, in milliseconds. */
  ageMs: number;
  /** Returns the maximum bytes kept for one pipeline. Called each time, because a reload may change it. */
  maxBytes: (pipelineId: string) => number;
}

/**
 * Returns the limits in `server.staging.keep`. The default size per pipeline is twice its largest bundle.
 * That leaves room for a whole bundle and the next one's changed files, with files counted in whole blocks.
 * Nothing is kept for a pipeline that accepts no uploads.
 *
 * @param largestBundleOf Returns the size of a pipeline's largest bundle in bytes, or null if it accepts no
 * uploads.
 */
export function contentBounds(
  { maxBytes, ageMs }: { maxBytes: number | null; ageMs: number },
  largestBundleOf: (pipelineId: string) => number | null,
): ContentBounds {
  return {
    isOn: maxBytes !== 0,
    ageMs,
    maxBytes: (pipelineId) => {
      const largest = largestBundleOf(pipelineId);
      return largest === null ? 0 : (maxBytes ?? 2 * largest);
    },
  };
}

/**
 * The reserve of free disk space. Kept files are removed if the free space falls below this share or this
 * many bytes, whichever is smaller. They are always removed before uploads are refused.
 */
const reserveShare = 0.1;
const reserveBytes = 2 ** 30;

/** Returns how many bytes of the reserve are not free. */
export function shortageOf(disk: { bsize: number; blocks: number; bavail: number }): number {
  const { bsize, blocks, bavail } = disk;
  const reserve = Math.max(minRoom, Math.min(reserveShare * blocks * bsize, reserveBytes));
  return Math.max(0, reserve - bavail * bsize);
}

/** Returns the shortage on the directory's disk, in bytes. Throws the system error. */
export async function shortageAt(directory: string): Promise<number> {
  return shortageOf(await statfs(directory));
}

const lookEveryMs = 1_000;

/**
 * Checks before each upload that the disk of `directory` has the free space that readiness requires. Removes
 * kept files before refusing an upload. Throws `insufficient_storage`, or `staging_unavailable` if the disk
 * does not respond. Checks at most once per second. If the disk fills up between checks, uploads fail while
 * being written.
 */
export function roomForUploads({
  directory,
  clock,
  content,
  requireAnswers = () => undefined,
}: {
  directory: string;
  clock: Clock;
  /** The files kept for later uploads. */
  content: { clear: () => Promise<void> };
  /** Throws if the disk does not respond, so that uploads do not wait for it. */
  requireAnswers?: () => void;
}): () => Promise<void> {
  const proved = provedAtMost(clock, lookEveryMs, async () => {
    try {
      await proveRoom(directory);
    } catch (error) {
      if (!hasCode(error, 'insufficient_storage')) throw error;
      await content.clear();
      await proveRoom(directory);
    }
  });
  return async () => {
    requireAnswers();
    await proved();
  };
}
