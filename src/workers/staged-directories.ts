import { mkdirSync, readdirSync, rmSync, type Dirent } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { customAlphabet } from 'nanoid';
import type { Breathe } from '../core/breath.ts';
import { WaybillError } from '../core/errors.ts';
import { errnoOf } from '../core/storage/local/errors.ts';
import type { StagingArea } from './coordinator.ts';

/*
 * Each upload is staged in a directory of its own, directly below `server.staging.directory`, with a name
 * that identifies it as ours: anything else in the staging directory belongs to somebody and is never
 * touched.
 */
const nameForm = /^upload-[0-9a-z]{16}$/;
const randomName = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 16);

/** The upload directories in `staging`, made and removed by synchronous calls, which `breathe` spreads. */
export function uploadDirectories(staging: string, breathe: Breathe): StagingArea {
  return {
    create: async () => {
      await breathe();
      return newUploadDirectory(staging);
    },
    discard: async (staged) => {
      await breathe();
      await removeUploadDirectory(staging, staged);
    },
  };
}

/** Makes a new, empty directory for one upload and returns its path. */
export async function newUploadDirectory(staging: string): Promise<string> {
  const directory = path.join(staging, `upload-${randomName()}`);
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    // The staging directory was removed underneath the daemon: it is made again.
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  }
  return directory;
}

/** Removes the upload directory that is, or contains, `staged`. Throws `internal_error` if none does. */
export async function removeUploadDirectory(staging: string, staged: string): Promise<void> {
  await removeDirectory(uploadDirectoryOf(staging, staged));
}

/** The upload directory that is, or contains, `staged`. Throws `internal_error` if none does. */
export function uploadDirectoryOf(staging: string, staged: string): string {
  const name = path.relative(staging, staged).split(path.sep)[0] ?? '';
  if (nameForm.test(name)) return path.join(staging, name);
  throw new WaybillError('internal_error', `${staged} is not in an upload's staging directory`);
}

/** Entries of a directory that are removed at once. */
const fewEntries = 32;

/**
 * A small bundle is removed synchronously: through Node's thread pool each call would cost ten times as much.
 * A large one must not block the event loop.
 */
async function removeDirectory(directory: string): Promise<void> {
  if (isSmall(directory)) rmSync(directory, { recursive: true, force: true });
  else await rm(directory, { recursive: true, force: true });
}

/** Whether the directory has few entries, at any depth; reads no more than those few. */
function isSmall(directory: string): boolean {
  let left = fewEntries;
  const pending = [directory];
  for (let current = pending.pop(); current !== undefined; current = pending.pop()) {
    for (const entry of readDirectory(current)) {
      left -= 1;
      if (left < 0) return false;
      if (entry.isDirectory()) pending.push(path.join(current, entry.name));
    }
  }
  return true;
}

function readDirectory(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    return []; // Gone or unreadable: the removal reports it.
  }
}

/**
 * Removes every upload directory in `staging` but those to `keep`, and resolves with the names of the removed
 * ones. `staging` need not exist.
 */
export async function sweepUploadDirectories(
  staging: string,
  keep: ReadonlySet<string> = new Set(),
): Promise<string[]> {
  const entries = await readdir(staging, { withFileTypes: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  const names = entries
    .filter((entry) => entry.isDirectory() && nameForm.test(entry.name))
    .map(({ name }) => name)
    .filter((name) => !keep.has(path.join(staging, name)));
  await Promise.all(names.map((name) => rm(path.join(staging, name), { recursive: true, force: true })));
  return names;
}
