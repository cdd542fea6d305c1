import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { claimDirectory, claimLeft, type ClaimedDirectory } from './claimed-directory.ts';
import { partialFiles, type PartialFiles } from './partial-files.ts';
import type { PartialUpload } from './partial-upload.ts';

/** The directory of this process's partial uploads, which is there while there are any. */
export interface PartialPlace {
  /** What earlier processes left. */
  left: readonly PartialUpload[];
  /**
   * Makes a directory this process's own, if it has none yet, and resolves with what an earlier process left
   * in it since the start.
   */
  claim(): Promise<{ files: PartialFiles; left: readonly PartialUpload[] }>;
  /** Of the directory that was claimed. */
  files(): PartialFiles;
  /** Gives the directory back, and removes it if nothing is in it. */
  close(): Promise<void>;
}

interface Claimed extends ClaimedDirectory {
  files: PartialFiles;
  left: readonly PartialUpload[];
}

/**
 * Takes the directory `partial` below `staging`, and what is in those of processes that have ended. In bullmq
 * mode several processes of a machine may stage in one directory: each has then a directory of its own, by a
 * number. Throws the system's error.
 */
export async function openPartialPlace(staging: string, clock: Pick<Clock, 'sleep'>): Promise<PartialPlace> {
  const request = { parent: staging, name: 'partial', clock };
  const taken = async (one: ClaimedDirectory): Promise<Claimed> => {
    const files = partialFiles(one.directory);
    try {
      return { ...one, files, left: await files.read() };
    } catch (error) {
      await one.release();
      throw error;
    }
  };
  const [first, ...others] = await claimLeft(request);
  for (const other of others) {
    await partialFiles((first as ClaimedDirectory).directory).takeOver(other.directory);
    await other.release();
  }
  let claimed = first === undefined ? null : await taken(first);
  let claiming: Promise<Claimed> | null = null;
  const current = (): Claimed | null => claimed;
  const files = (): PartialFiles => {
    if (claimed === null)
      throw new WaybillError('internal_error', 'there is no directory of partial uploads');
    return claimed.files;
  };
  return {
    left: claimed?.left ?? [],
    files,
    claim: async () => {
      if (claimed !== null) return { files: claimed.files, left: [] };
      claiming ??= claimDirectory(request)
        .then(taken)
        .finally(() => (claiming = null));
      const fresh = await claiming;
      const left = fresh === current() ? [] : fresh.left;
      claimed = fresh;
      return { files: fresh.files, left };
    },
    close: async () => {
      await claiming?.catch(() => null);
      await claimed?.release();
    },
  };
}
