import { statfs } from 'node:fs/promises';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { minRoom, provedAtMost, proveRoom } from './staging-check.ts';

/** What bounds the files that are kept of uploads. */
export interface ContentBounds {
  /** Whether anything is ever kept. */
  isOn: boolean;
  /** How long a file stays that no upload had any use for. */
  ageMs: number;
  /** Room of one pipeline in bytes; asked each time, as a reload may change it. */
  maxBytes: (pipelineId: string) => number;
}

/**
 * The bounds that `server.staging.keep` gives. Where it names no size, a pipeline has twice its largest
 * bundle: all of that is kept, and of the next one the files that have changed beside those in whose place
 * they come; files count in whole blocks, which adds to it. Of a pipeline that takes no uploads nothing is
 * kept. Pure.
 *
 * @param largestBundleOf A pipeline, in bytes; null: it takes no uploads.
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
 * Kept files are the first to go where the disk has less free than this share of it, or than these bytes; and
 * in any case before uploads are refused.
 */
const reserveShare = 0.1;
const reserveBytes = 2 ** 30;

/** How many bytes a disk lacks of what has to stay free. Pure. */
export function shortageOf(disk: { bsize: number; blocks: number; bavail: number }): number {
  const { bsize, blocks, bavail } = disk;
  const reserve = Math.max(minRoom, Math.min(reserveShare * blocks * bsize, reserveBytes));
  return Math.max(0, reserve - bavail * bsize);
}

/** The same of the disk that the directory is on. Throws the system's error. */
export async function shortageAt(directory: string): Promise<number> {
  return shortageOf(await statfs(directory));
}

const lookEveryMs = 1_000;

/**
 * Checks before each upload that the disk of `directory` has the room that readiness asks for. Kept files are
 * removed before an upload is refused. Throws `insufficient_storage`, and `staging_unavailable` if the disk
 * does not answer. The disk is checked at most once a second; if it fills up in between, the uploads that
 * find it full fail.
 */
export function roomForUploads({
  directory,
  clock,
  content,
  requireAnswers = () => undefined,
}: {
  directory: string;
  clock: Clock;
  /** The files that are kept for later uploads. */
  content: { clear: () => Promise<void> };
  /** Throws if the disk does not answer, so that no upload waits for it. */
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
