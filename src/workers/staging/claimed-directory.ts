import { randomInt } from 'node:crypto';
import { mkdir, readdir, rmdir } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { lockDirectory, type DirectoryLock } from './directory-lock.ts';

/** A directory that belongs to this process until it is released, or the process ends. */
export interface ClaimedDirectory {
  directory: string;
  /** Gives it back, and removes it if nothing is in it. */
  release(): Promise<void>;
}

/**
 * Directories of one kind, one for each process that needs one: in bullmq mode several processes of a machine
 * may stage in one place.
 */
export interface ClaimRequest {
  parent: string;
  /** They are called `name`, `name-2`, … below `parent`. */
  name: string;
  clock: Pick<Clock, 'sleep'>;
}

/** Processes of one machine that may stage in one directory. */
const mostProcesses = 64;
/** Of two that want the same directory at the same moment, both step back: how often each comes again. */
const tries = 10;
const mostPauseMs = 20;

/**
 * All directories that are there and that no process has: those of processes that have ended. Throws the
 * system's error.
 */
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

/** The first directory that no process has, which is made if it is not there. Throws the system's error. */
export async function claimDirectory(request: ClaimRequest): Promise<ClaimedDirectory> {
  for (let number = 1; ; number += 1) {
    const claimed = await claim(request, number, number >= mostProcesses);
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
  const numbers = Array.from({ length: mostProcesses }, (_, index) => index + 1);
  return numbers.filter((number) => isThere.has(number === 1 ? name : `${name}-${number}`));
}

/** Null if another process has it. */
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
      // Another may have looked before this one listened, as this one may have before it: whoever sees
      // another steps back, so that there are never two.
      if (await lock.isAlone()) return { directory, release: () => release(directory, lock) };
      await lock.release();
    } catch (error) {
      if (hasCode(error, 'queue_unusable') && !mustBe) return null;
      // Its last owner has just removed it.
      if (!isMissing(error)) throw error;
    }
    await request.clock.sleep(randomInt(mostPauseMs));
  }
  return null;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

async function release(directory: string, lock: DirectoryLock): Promise<void> {
  await lock.release();
  await rmdir(directory).catch(() => undefined); // It is not empty.
}
