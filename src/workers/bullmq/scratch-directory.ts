import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { WaybillError } from '../../core/errors.ts';

/*
 * Several processes of one machine may have one scratch directory, so each has a directory of its own in it,
 * and shows that it lives by touching it. Process ids would not do: in containers each counts its own.
 */
const nameForm = /^process-[0-9a-f-]{36}$/;
const touchMs = 60_000;
const staleMs = 3_600_000;

export interface ScratchDirectory {
  /** This process's own. */
  directory: string;
  /** Removes it with all that is in it. */
  close(): Promise<void>;
}

/**
 * Makes a directory for this process, and removes those of processes that have not lived for an hour. Throws
 * `config_invalid` where that cannot be.
 */
export async function openScratch(root: string, now: () => number): Promise<ScratchDirectory> {
  const directory = path.join(root, `process-${randomUUID()}`);
  try {
    await mkdir(root, { recursive: true, mode: 0o700 });
    await sweepScratch(root, now);
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
  const timer = setInterval(() => {
    const time = new Date(now());
    void utimes(directory, time, time).catch(() => undefined);
    void sweepScratch(root, now).catch(() => undefined);
  }, touchMs);
  timer.unref();
  return {
    directory,
    close: async () => {
      clearInterval(timer);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function sweepScratch(root: string, now: () => number): Promise<void> {
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (!entry.isDirectory() || !nameForm.test(entry.name)) continue;
    const directory = path.join(root, entry.name);
    const found = await stat(directory).catch(() => undefined);
    if (found !== undefined && now() - found.mtimeMs > staleMs)
      await rm(directory, { recursive: true, force: true });
  }
}
