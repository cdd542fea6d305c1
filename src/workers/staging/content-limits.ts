import { statfs } from 'node:fs/promises';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { cachedCheck, checkFreeSpace, minFreeBytes, withDiskTimeout } from './staging-check.ts';

/** Limits how many files are kept for later uploads. */
export interface ContentLimits {
  /** False if no files are kept at all. */
  isEnabled: boolean;
  /** How long a file is kept after it was last used, in milliseconds. */
  ageMs: number;
  /**
   * Returns how many bytes may be kept for a pipeline. This can change when the configuration is reloaded.
   */
  maxBytes: (pipelineId: string) => number;
}

/**
 * Reads the limits from `server.staging.keep`. By default, a pipeline may keep twice the size of its largest
 * bundle: a whole bundle plus the changed files of the next one, even with sizes rounded up to whole blocks.
 * For a pipeline that does not accept uploads, nothing is kept.
 *
 * @param largestBundleOf Returns the size of a pipeline's largest bundle in bytes, or null if the pipeline
 * does not accept uploads.
 */
export function contentLimits(
  { maxBytes, ageMs }: { maxBytes: number | null; ageMs: number },
  largestBundleOf: (pipelineId: string) => number | null,
): ContentLimits {
  return {
    isEnabled: maxBytes !== 0,
    ageMs,
    maxBytes: (pipelineId) => {
      const largest = largestBundleOf(pipelineId);
      return largest === null ? 0 : (maxBytes ?? 2 * largest);
    },
  };
}

/**
 * The disk space that should stay free, as a share of the disk and in bytes. The smaller of the two applies.
 * If there is less, kept files are deleted. Uploads are not rejected until all of them are gone.
 */
const reserveShare = 0.1;
const reserveBytes = 2 ** 30;

/** Returns how many bytes have to be freed to restore the reserve. */
export function shortageOf(disk: { bsize: number; blocks: number; bavail: number }): number {
  const { bsize, blocks, bavail } = disk;
  const reserve = Math.max(minFreeBytes, Math.min(reserveShare * blocks * bsize, reserveBytes));
  return Math.max(0, reserve - bavail * bsize);
}

/** Returns how many bytes have to be freed on this directory's disk. Throws system errors. */
export async function shortageAt(directory: string): Promise<number> {
  return shortageOf(await statfs(directory));
}

const checkEveryMs = 1_000;

/**
 * Returns a function to call before each upload. It checks that the disk has as much free space as the
 * readiness check requires. If it does not, all kept files are deleted before the upload is rejected. Throws
 * `insufficient_storage`, or `staging_unavailable` if the disk does not respond. The disk is checked once per
 * second at most. If it fills up in between, uploads fail while they are being written.
 */
export function uploadSpaceCheck({
  directory,
  clock,
  content,
  requireAnswers = () => undefined,
}: {
  directory: string;
  clock: Clock;
  /** The files kept for later uploads. */
  content: { clear: () => Promise<void> };
  /** Throws an error if the disk is not responding, so that uploads fail immediately. */
  requireAnswers?: () => void;
}): () => Promise<void> {
  const check = async (): Promise<void> => {
    try {
      await checkFreeSpace(directory);
    } catch (error) {
      if (!hasCode(error, 'insufficient_storage')) throw error;
      await content.clear();
      await checkFreeSpace(directory);
    }
  };
  const proved = cachedCheck(clock, checkEveryMs, check, (checking) => withDiskTimeout(checking, clock));
  return async () => {
    requireAnswers();
    await proved();
  };
}
