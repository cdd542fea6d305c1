import { randomInt, randomUUID } from 'node:crypto';
import { mkdir, readdir, rm, rmdir, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import { type DirectoryLock, lockDirectory } from './directory-lock.ts';

/** A directory that no other process may use until it's released or this process ends. */
export interface ClaimedDirectory {
  directory: string;
  /** Releases the directory. If it's empty, it is deleted. */
  release(): Promise<void>;
}

/**
 * Describes a set of directories, one for each process. With BullMQ, several processes on the same machine
 * may stage files below the same parent directory.
 */
export interface ClaimRequest {
  parent: string;
  /** The directories are called `name`, `name-2`, and so on, and are located in `parent`. */
  name: string;
  clock: Pick<Clock, 'sleep'>;
}

/** The maximum number of processes that can share a parent directory on one machine. */
const maxProcesses = 64;
/**
 * The maximum number of attempts. If two processes claim the same directory at the same time, both of them
 * back off and try again.
 */
const tries = 10;
const maxPauseMs = 20;

/** Claims all existing directories whose processes have ended. Throws system errors. */
export async function claimLeft(request: ClaimRequest): Promise<ClaimedDirectory[]> {
  const claimed: ClaimedDirectory[] = [];
  try {
    for (const number of await numbersOf(request)) {
      const one = await claim(request, number);
      if (one !== null) claimed.push(one);
    }
    return claimed;
  } catch (error) {
    for (const one of claimed) await one.release();
    throw error;
  }
}

/**
 * Claims the first directory that isn't in use by another process, and creates it if necessary. Throws system
 * errors.
 */
export async function claimDirectory(request: ClaimRequest): Promise<ClaimedDirectory> {
  for (let number = 1; ; number += 1) {
    const claimed = await claim(request, number, number >= maxProcesses);
    if (claimed !== null) return claimed;
  }
}

const pathOf = ({ parent, name }: ClaimRequest, number: number): string =>
  path.join(parent, number === 1 ? name : `${name}-${number}`);

async function numbersOf({ parent, name }: ClaimRequest): Promise<number[]> {
  const entries = await readdir(parent, { withFileTypes: true }).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const isThere = new Set(entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name));
  const numbers = Array.from({ length: maxProcesses }, (_, index) => index + 1);
  return numbers.filter((number) => isThere.has(number === 1 ? name : `${name}-${number}`));
}

/** Tries to claim a directory. Returns null if another process is using it. */
async function claim(
  request: ClaimRequest,
  number: number,
  mustBe = false,
): Promise<ClaimedDirectory | null> {
  const directory = pathOf(request, number);
  for (let left = tries; left > 0; left -= 1) {
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const lock = await lockDirectory(directory);
      // Both processes may have looked before the other one was listening. A process that sees another one
      // backs off, so a directory is never used by two of them.
      if (await lock.isAlone()) return { directory, release: () => release(directory, lock) };
      await lock.release();
    } catch (error) {
      if (hasCode(error, 'queue_unusable') && !mustBe) return null;
      // The process that was using the directory has just deleted it.
      if (!isMissing(error)) throw error;
    }
    await request.clock.sleep(randomInt(maxPauseMs));
  }
  return null;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

async function release(directory: string, lock: DirectoryLock): Promise<void> {
  await lock.release();
  await rmdir(directory).catch(() => undefined); // The directory is not empty.
}

/*
 * Several processes on one machine may share a scratch directory. Each has a subdirectory of its own, and
 * touches it regularly to show that it is still running. Process ids wouldn't work for this, because every
 * container has its own.
 */
const nameForm = /^process-[0-9a-f-]{36}$/;
const touchMs = 60_000;
const staleMs = 3_600_000;

interface ScratchDirectory {
  /** The absolute path of this process's subdirectory. */
  directory: string;
  /** Deletes the subdirectory and everything in it. */
  close(): Promise<void>;
}

/**
 * Creates a subdirectory for this process, and deletes those of processes that have been dead for an hour.
 * Throws a `config_invalid` error if that fails.
 */
export async function openScratch(root: string, clock: Clock): Promise<ScratchDirectory> {
  const directory = path.join(root, `process-${randomUUID()}`);
  try {
    await mkdir(root, { recursive: true, mode: 0o700 });
    await sweepScratch(root, clock);
    await mkdir(directory, { mode: 0o700 });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new WaybillError(
      'config_invalid',
      `server.queue.scratch_directory ${root} cannot be used: ${why}`,
      {
        cause,
        hint: 'name a directory of this machine that the process may write',
      },
    );
  }
  const touching = clock.every(
    touchMs,
    () => {
      const time = clock.now();
      void utimes(directory, time, time).catch(() => undefined);
      void sweepScratch(root, clock).catch(() => undefined);
    },
    { unref: true },
  );
  return {
    directory,
    close: async () => {
      touching.cancel();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function sweepScratch(root: string, clock: Clock): Promise<void> {
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (!entry.isDirectory() || !nameForm.test(entry.name)) continue;
    const directory = path.join(root, entry.name);
    const found = await stat(directory).catch(() => undefined);
    if (found !== undefined && clock.now().getTime() - found.mtimeMs > staleMs)
      await rm(directory, { recursive: true, force: true });
  }
}
