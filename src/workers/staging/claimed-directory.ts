import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { createLockedDirectory } from '../../core/lib/directory-lock.ts';
import { errorMessage, WaybillError } from '../../core/lib/errors.ts';
import { closeAll } from '../../core/lib/lifecycle.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

/** A directory that no other process may use until it is released or this process ends. */
export interface ClaimedDirectory {
  directory: string;
  /** Releases the directory. If it is empty, it is deleted. */
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

/** Claims all existing directories whose processes have ended. Throws system errors. */
export async function claimStale(request: ClaimRequest): Promise<ClaimedDirectory[]> {
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
 * Claims the first directory that is not in use by another process, and creates it if necessary. Throws
 * system errors.
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
    if (errnoOf(error) === 'ENOENT') return [];
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
  const release = await createLockedDirectory(directory, request.clock);
  if (release !== null) return { directory, release };
  if (mustBe) throw queueInUse(directory);
  return null;
}

/** Returns the error for a directory that another daemon uses. */
export function queueInUse(directory: string): WaybillError {
  return new WaybillError('queue_unusable', `another daemon uses the queue in ${directory}`, {
    hint: 'stop it first, or give each daemon a directory of its own (server.queue.directory)',
  });
}

/*
 * Several processes on one machine may share a scratch directory. Each claims a subdirectory. Neither process
 * ids nor times show which processes are alive: each container has its own ids, and clocks jump.
 */
const sweepEveryMs = 3_600_000;

interface ScratchDirectory {
  /** Absolute path of this process's own directory. */
  directory: string;
  /** Removes the directory and its contents. */
  close(): Promise<void>;
}

/**
 * Creates a directory for this process, and removes those of dead processes, now and once an hour. Throws
 * `config_invalid` if that fails.
 */
export async function openScratch(parent: string, clock: Clock): Promise<ScratchDirectory> {
  const request = { parent, name: 'process', clock };
  try {
    await sweepScratch(request);
    const claimed = await claimDirectory(request);
    const directory = filesOf(claimed);
    // Another process may have died since the sweep.
    await removeFiles(claimed);
    await mkdir(directory, { mode: 0o700 });
    const sweep = (): void => void sweepScratch(request).catch(() => undefined);
    const sweeping = clock.every(sweepEveryMs, sweep, { unref: true });
    return {
      directory,
      close: async () => {
        sweeping.cancel();
        await closeAll(
          () => removeFiles(claimed),
          () => claimed.release(),
        );
      },
    };
  } catch (cause) {
    const why = errorMessage(cause);
    throw new WaybillError(
      'config_invalid',
      `server.queue.scratch_directory ${parent} cannot be used: ${why}`,
      {
        cause,
        hint: 'name a directory of this machine that the process can write to',
      },
    );
  }
}

const filesOf = ({ directory }: ClaimedDirectory): string => path.join(directory, 'files');

async function removeFiles(claimed: ClaimedDirectory): Promise<void> {
  await rm(filesOf(claimed), { recursive: true, force: true });
}

async function sweepScratch(request: ClaimRequest): Promise<void> {
  for (const dead of await claimStale(request)) await removeFiles(dead).finally(() => dead.release());
}
