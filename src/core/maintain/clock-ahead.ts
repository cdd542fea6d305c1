import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { WaybillError } from '../errors.ts';
import { formatDuration } from '../settings/units.ts';
import { bytesBody } from '../storage/body.ts';
import { joinKey, listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

/** Clocks that differ by less are as good as equal where ages are counted in hours and days. */
const toleranceMs = 300_000;

/**
 * Throws `clock_ahead` if the clock of this machine is ahead of that of the storage. A storage that did not
 * tell its time while it was opened is asked by a small file, if `mayWrite`; one that does not tell, or is
 * this machine, passes. Throws the storage's own error.
 */
export async function refuseClockAhead(
  storage: Storage,
  clock: Clock,
  { mayWrite }: { mayWrite: boolean },
): Promise<void> {
  const told = storage.facts.clockOffsetMs;
  const offsetMs = told ?? (mayWrite ? await offsetOfFile(storage, clock) : null);
  if (offsetMs === null || offsetMs >= -toleranceMs) return;
  throw new WaybillError(
    'clock_ahead',
    `the clock of this machine is ${formatDuration(-offsetMs)} ahead of that of ${storage.label}, so that outputs seem older than they are; nothing was deleted`,
    { hint: 'set the clock right, and run again' },
  );
}

async function offsetOfFile(storage: Storage, clock: Clock): Promise<number | null> {
  const key = joinKey(listedKey(`.publisher-probe-${randomUUID()}`), 'clock');
  try {
    await storage.write(key, bytesBody('1'), { mode: 'replace' });
    const modifiedAt = (await storage.stat(key))?.modifiedAt ?? null;
    return modifiedAt === null ? null : modifiedAt.getTime() - clock.now().getTime();
  } finally {
    await storage.remove(key);
  }
}
