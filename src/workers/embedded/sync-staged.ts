import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeDurable } from '../../core/lib/sync.ts';
import { uploadDirectoryOf } from '../staging/staged-directories.ts';

/** Number of uploads between two yields to the event loop. */
const uploadsPerYield = 8;

/**
 * Makes staged uploads durable, including everything in their directories and the directories' names in
 * `staging`. Resolves with those of `uploads` that failed and their errors. The others are durable.
 *
 * @param uploads Directories created by `newUploadDirectory`, or directories inside them.
 */
export async function syncStaged(
  staging: string,
  uploads: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  try {
    await syncAll(staging, uploads);
    return new Map();
  } catch {
    // A missing upload must not prevent the others from being accepted.
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
    // A whole group waits for this work, so it yields rarely and does not queue behind uploads that are still
    // being staged.
    if (index % uploadsPerYield === uploadsPerYield - 1) await nextTurn();
    const upload = uploadDirectoryOf(staging, staged);
    directories.push(upload);
    for (const entry of readdirSync(upload, { recursive: true, withFileTypes: true }))
      (entry.isDirectory() ? directories : files).push(path.join(entry.parentPath, entry.name));
  }
  await makeDurable(files, directories);
}
