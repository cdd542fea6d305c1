import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/*
 * Several processes of one machine may share a scratch directory. Each has a directory of its own in it, and
 * touches that to show that it is alive. Process ids would not serve: each container counts its own.
 */
const nameForm = /^process-[0-9a-f-]{36}$/;
const touchMs = 60_000;
const staleMs = 3_600_000;

export interface ScratchDirectory {
  /** This process's own, absolute. */
  directory: string;
  /** Removes it with its contents. */
  close(): Promise<void>;
}

/**
 * Makes a directory for this process, and removes those of processes that have been dead for an hour. Throws
 * `config_invalid` if that fails.
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
