import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeDurable } from '../../core/lib/sync.ts';
import { uploadDirectoryOf } from '../staging/staged-directories.ts';

/** After this many uploads, yield to the event loop. */
const uploadsPerYield = 8;

/**
 * Flushes staged uploads to disk: all of their files, their directories, and the directory entries in
 * `staging`. Resolves with those of `uploads` that failed, along with their errors. The others are on disk.
 *
 * @param uploads Directories created by `newUploadDirectory`, or directories inside of those.
 */
export async function syncStaged(
  staging: string,
  uploads: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  try {
    await syncAll(staging, uploads);
    return new Map();
  } catch {
    // One missing upload must not keep the others from being accepted.
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
    // Yield only now and then, because a whole group of uploads is waiting. Do not queue behind uploads that
    // are still being staged, either.
    if (index % uploadsPerYield === uploadsPerYield - 1) await nextTurn();
    const upload = uploadDirectoryOf(staging, staged);
    directories.push(upload);
    for (const entry of readdirSync(upload, { recursive: true, withFileTypes: true }))
      (entry.isDirectory() ? directories : files).push(path.join(entry.parentPath, entry.name));
  }
  await makeDurable(files, directories);
}
