import { randomUUID } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { formatDuration } from '../lib/settings/units.ts';
import { bytesBody } from '../storage/body.ts';
import { joinKey, listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

/** Smaller differences do not matter, because ages are counted in hours and days. */
const toleranceMs = 300_000;

/**
 * Throws `clock_ahead` if the clock of this machine is ahead of the storage's clock. If the storage reported
 * no time when it was opened, writes a small file to get its time, provided that `mayWrite`. Accepts a
 * storage whose time is unknown, and storage on this machine. Throws the storage's error.
 */
export async function refuseClockAhead(
  storage: Storage,
  clock: Clock,
  { mayWrite }: { mayWrite: boolean },
): Promise<void> {
  const reported = storage.facts.clockOffsetMs;
  const offsetMs = reported ?? (mayWrite ? await offsetOfFile(storage, clock) : null);
  if (offsetMs === null || offsetMs >= -toleranceMs) return;
  throw new WaybillError(
    'clock_ahead',
    `the clock of this machine is ${formatDuration(-offsetMs)} ahead of the clock of ${storage.label}, so outputs seem older than they are; nothing was deleted`,
    { hint: 'correct the clock and run again' },
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
