import { WaybillError } from '../../core/errors.ts';
import { claimDirectory, type ClaimedDirectory } from '../claimed-directory.ts';
import { partialFiles, type PartialFiles } from './partial-files.ts';
import type { PartialUpload } from './partial-upload.ts';

/** The directory of this process's partial uploads, which is there while there are any. */
export interface PartialPlace {
  /** What an earlier process left. */
  left: readonly PartialUpload[];
  /** Makes the directory this process's own, if it has none yet. */
  claim(): Promise<PartialFiles>;
  /** Of the directory that was claimed. */
  files(): PartialFiles;
  /** Gives the directory back, and removes it if nothing is in it. */
  close(): Promise<void>;
}

interface Claimed extends ClaimedDirectory {
  files: PartialFiles;
}

async function claimFiles(staging: string, isMade: boolean): Promise<Claimed | null> {
  const claimed = await claimDirectory(staging, 'partial', isMade);
  return claimed === null ? null : { ...claimed, files: partialFiles(claimed.directory) };
}

/**
 * Takes the directory `partial` below `staging`. In bullmq mode several processes of a machine may stage in
 * one directory: each has then a directory of its own, by a number. Throws the system's error.
 */
export async function openPartialPlace(staging: string): Promise<PartialPlace> {
  let claimed = await claimFiles(staging, false);
  let claiming: Promise<Claimed | null> | null = null;
  const left = (await claimed?.files.read()) ?? [];
  const files = (): PartialFiles => {
    if (claimed === null)
      throw new WaybillError('internal_error', 'there is no directory of partial uploads');
    return claimed.files;
  };
  return {
    left,
    files,
    claim: async () => {
      if (claimed === null) {
        claiming ??= claimFiles(staging, true).finally(() => (claiming = null));
        claimed = await claiming;
      }
      return files();
    },
    close: async () => {
      await claiming?.catch(() => null);
      await claimed?.release();
    },
  };
}
