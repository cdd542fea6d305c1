import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { makeDurable } from '../../core/lib/sync.ts';
import { uploadDirectoryOf } from '../staging/staged-directories.ts';

/** After so many uploads the event loop gets its turn. */
const uploadsPerBreath = 8;

/**
 * Makes staged uploads durable: everything in their directories, and the directories' names in `staging`.
 * Resolves with those of `uploads` that could not be, and why; the others are.
 *
 * @param uploads Directories that are, or lie in, those that `newUploadDirectory` made.
 */
export async function syncStaged(
  staging: string,
  uploads: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  try {
    await syncAll(staging, uploads);
    return new Map();
  } catch {
    // One that is gone must not keep the others from being accepted.
    const failed = new Map<string, unknown>();
    for (const upload of uploads)
      await syncAll(staging, [upload]).catch((error: unknown) => failed.set(upload, error));
    return failed;
  }
}

async function syncAll(staging: string, uploads: readonly string[]): Promise<void> {
  const files: string[] = [];
  const directories = [staging];
  for (const [index, staged] of uploads.entries()) {
    // All of a group wait for this: longer than a turn, but not in line with those that are being staged.
    if (index % uploadsPerBreath === uploadsPerBreath - 1) await breathe();
    const upload = uploadDirectoryOf(staging, staged);
    directories.push(upload);
    for (const entry of readdirSync(upload, { recursive: true, withFileTypes: true }))
      (entry.isDirectory() ? directories : files).push(path.join(entry.parentPath, entry.name));
  }
  await makeDurable(files, directories);
}
