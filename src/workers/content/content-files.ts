import { copyFileSync, constants, linkSync, mkdirSync, rmSync } from 'node:fs';
import { lstat, open, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { finishDigest, hexOf, parseDigest, startDigest, type Digest } from '../../core/digest.ts';

/*
 * A kept file is `<pipeline>/<two digits>/<digest>`, and one more name of a file that was staged: a hard
 * link. Neither name's file is ever written to. A link is made in one step, so that whatever is killed leaves
 * a file that is there, or none; and its bytes are hashed before they count.
 */
const fileForm = /^[0-9a-f]{64}$/;

export interface FoundFile {
  pipelineId: string;
  digest: Digest;
  size: number;
  /** When it was linked or unlinked last, in milliseconds: about when it was of use. */
  usedAt: number;
}

/** The files below one directory, which belongs to this process. */
export interface ContentFiles {
  /** All of them; whatever else lies among them is removed. */
  read(): Promise<FoundFile[]>;
  /** Makes `file` a kept one. False if the file system makes no link of it. */
  link(pipelineId: string, digest: Digest, file: string): boolean;
  /** Makes a kept file also `file`. False if it is not there. */
  place(pipelineId: string, digest: Digest, file: string): boolean;
  remove(pipelineId: string, digest: Digest): void;
}

export function contentFiles(directory: string): ContentFiles {
  const made = new Set<string>();
  const placeOf = (pipelineId: string, digest: Digest): string => {
    const hex = hexOf(digest);
    return path.join(directory, pipelineId, hex.slice(0, 2), hex);
  };

  async function readPipeline(pipelineId: string): Promise<FoundFile[]> {
    const root = path.join(directory, pipelineId);
    const found: FoundFile[] = [];
    for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
      if (entry.isDirectory()) continue;
      const file = path.join(entry.parentPath, entry.name);
      const digest = parseDigest(`sha256:${entry.name}`);
      const isOurs = fileForm.test(entry.name) && entry.isFile() && digest !== undefined;
      if (isOurs && file === placeOf(pipelineId, digest)) {
        const { size, ctimeMs } = await lstat(file);
        found.push({ pipelineId, digest, size, usedAt: ctimeMs });
      } else await rm(file, { force: true });
    }
    return found;
  }

  return {
    read: async () => {
      const pipelines = (await readdir(directory, { withFileTypes: true })).filter((one) =>
        one.isDirectory(),
      );
      const found: FoundFile[] = [];
      for (const { name } of pipelines) found.push(...(await readPipeline(name)));
      return found.sort((a, b) => a.usedAt - b.usedAt);
    },
    link: (pipelineId, digest, file) => {
      const kept = placeOf(pipelineId, digest);
      const parent = path.dirname(kept);
      if (!made.has(parent)) {
        mkdirSync(parent, { recursive: true, mode: 0o700 });
        made.add(parent);
      }
      const isMade = attempt(() => linkSync(file, kept));
      // Somebody may have tidied up.
      if (!isMade) made.delete(parent);
      return isMade;
    },
    place: (pipelineId, digest, file) => {
      const kept = placeOf(pipelineId, digest);
      // A file has only so many names.
      return (
        attempt(() => linkSync(kept, file)) ||
        attempt(() => copyFileSync(kept, file, constants.COPYFILE_EXCL))
      );
    },
    remove: (pipelineId, digest) => rmSync(placeOf(pipelineId, digest), { force: true }),
  };
}

/** False for a system's error, but for a full disk, which is thrown. */
function attempt(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === undefined || code === 'ENOSPC' || code === 'EDQUOT') throw error;
    return false;
  }
}

const chunkBytes = 1 << 20;

/** Null if it cannot be read. */
export async function measureFile(file: string): Promise<{ size: number; digest: Digest } | null> {
  try {
    const handle = await open(file, 'r');
    try {
      const hash = startDigest();
      const { size: expected } = await handle.stat();
      const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(expected, chunkBytes)));
      let size = 0;
      for (;;) {
        const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
        if (bytesRead === 0) return { size, digest: finishDigest(hash) };
        hash.update(buffer.subarray(0, bytesRead));
        size += bytesRead;
      }
    } finally {
      await handle.close();
    }
  } catch {
    return null;
  }
}
