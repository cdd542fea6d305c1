import { randomUUID } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { type ErrorRecord, errorRecord, hasCode } from '../lib/errors.ts';
import { reservedPrefix } from '../lib/paths.ts';
import { bytesBody, readAll } from '../storage/body.ts';
import type { Renames } from '../storage/capabilities.ts';
import { joinKey, type Key, listedKey, nameOf } from '../storage/key.ts';
import { canRename, type ConditionalWrites, type RenamingStorage, type Storage } from '../storage/storage.ts';

/*
 * Finds out what a storage supports, for `waybill config probe` and for testing servers.
 */

export interface Probe {
  /** How long a `stat` call for a key that does not exist takes, in milliseconds; null if it failed. */
  latencyMs: { median: number; slowest: number } | null;
  /**
   * How far the server's clock is ahead of ours, in milliseconds; null if the server does not say what time
   * it is.
   */
  clockOffsetMs: number | null;
  rename: Renames['renameKind'] | 'none';
  /**
   * The level of support that the storage claims, or `none` if that turned out to be wrong; null if we may
   * not write anything.
   */
  conditionalWrites: ConditionalWrites | null;
  rights: Record<Right, RightVerdict>;
}

export const rightNames = ['list', 'read', 'create', 'replace', 'rename', 'remove'] as const;
export type Right = (typeof rightNames)[number];

/**
 * `not_tried` means that the storage is read-only or does not have the operation, or that an earlier step
 * failed.
 */
interface RightVerdict {
  answer: 'yes' | 'no' | 'not_tried';
  error: ErrorRecord | null;
}

const trials = 5;
const probePrefix = `${reservedPrefix}-probe-`;
const abandonedAfterMs = 600_000;

/**
 * Makes the same calls to a storage that a publication makes. With `write`, small files are written to a
 * directory with a reserved name (`.publisher-probe-…`), which publications, listings and verifications
 * ignore. They are removed afterwards, and so are those of probes that were killed. Without `write`, files
 * are only read. If a permission is missing, the result says so; this does not throw.
 */
export async function probeStorage(
  storage: Storage,
  clock: Clock,
  options: { write: boolean },
): Promise<Probe> {
  const untried = (): RightVerdict => ({ answer: 'not_tried', error: null });
  const rights = Object.fromEntries(rightNames.map((right) => [right, untried()])) as Probe['rights'];
  const attempt = async (right: Right, work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await work();
      rights[right] = { answer: 'yes', error: null };
    } catch (error) {
      rights[right] = { answer: 'no', error: errorRecord(error) };
    }
    return rights[right].answer === 'yes';
  };
  const probe: Probe = {
    latencyMs: await latency(storage, clock),
    clockOffsetMs: storage.facts.clockOffsetMs,
    rename: storage.renameKind ?? 'none',
    conditionalWrites: null,
    rights,
  };

  await attempt('list', () => firstOf(storage.list('', { recursive: false })));
  if (options.write) await probeWrites(storage, clock, probe, attempt);
  return probe;
}

/**
 * Returns the error for the first permission that is missing, in the order of `rightNames`. Returns null if
 * none is.
 */
export function firstRefusal({ rights }: Probe): ErrorRecord | null {
  return rightNames.map((right) => rights[right].error).find((error) => error !== null) ?? null;
}

type TryRight = (right: Right, work: () => Promise<unknown>) => Promise<boolean>;

async function probeWrites(storage: Storage, clock: Clock, probe: Probe, attempt: TryRight): Promise<void> {
  const directory = listedKey(`${probePrefix}${randomUUID()}`);
  const key = joinKey(directory, 'a');
  const staging = joinKey(directory, 'staged');
  try {
    if (!(await attempt('create', () => create(storage, key)))) return;
    probe.clockOffsetMs ??= await clockOffset(storage, key, clock);
    await attempt('read', () => readAll(storage, key, 16));
    probe.conditionalWrites = await conditionalWrites(storage, key);
    await attempt('replace', () => storage.write(key, bytesBody('2'), { mode: 'replace' }));
    if (canRename(storage)) await attempt('rename', () => replaceStaged(storage, joinKey(staging, 'b'), key));
  } finally {
    await attempt('remove', async () => {
      // Each publication does this at the end, even if it has not staged anything.
      if (canRename(storage)) await storage.removeTree(staging);
      await storage.remove(key);
      await removeAbandoned(storage, clock, probe);
    });
  }
}

async function replaceStaged(storage: RenamingStorage, staged: Key, key: Key): Promise<void> {
  await storage.write(staged, bytesBody('3'), { mode: 'scratch' });
  await storage.rename([{ from: staged, to: key }]);
  await storage.sync();
}

/**
 * Removes what killed probes left behind. Since a probe is done after a few seconds, an old directory cannot
 * be in use.
 */
async function removeAbandoned(storage: Storage, clock: Clock, probe: Probe): Promise<void> {
  const before = clock.now().getTime() + (probe.clockOffsetMs ?? 0) - abandonedAfterMs;
  const probes: Key[] = [];
  for await (const { key, type } of storage.list('', { recursive: false }))
    if (type === 'directory' && nameOf(key).startsWith(probePrefix)) probes.push(key);
  for (const key of probes) {
    const newest = await newestBelow(storage, key);
    if (newest !== null && newest < before) await storage.removeTree(key);
  }
}

/**
 * Returns the time of the newest file in milliseconds. Returns null if there are no files, or none that has a
 * time.
 */
async function newestBelow(storage: Storage, directory: Key): Promise<number | null> {
  let newest: number | null = null;
  for await (const { key } of storage.list(directory, { recursive: true })) {
    const modified = (await storage.stat(key))?.modifiedAt?.getTime() ?? null;
    if (modified !== null) newest = Math.max(newest ?? 0, modified);
  }
  return newest;
}

/** Creates the file. If the storage can do that, fails if there already is one. */
async function create(storage: Storage, key: Key): Promise<unknown> {
  const mode = (await storage.facts.conditionalWrites()) === 'none' ? 'replace' : 'create';
  return storage.write(key, bytesBody('1'), { mode });
}

async function conditionalWrites(storage: Storage, key: Key): Promise<ConditionalWrites> {
  const honored = await storage.facts.conditionalWrites();
  return honored === 'none' || (await refusesSecondCreation(storage, key)) ? honored : 'none';
}

async function refusesSecondCreation(storage: Storage, key: Key): Promise<boolean> {
  try {
    await storage.write(key, bytesBody('1'), { mode: 'create' });
    return false;
  } catch (error) {
    return hasCode(error, 'storage_exists');
  }
}

async function clockOffset(storage: Storage, key: Key, clock: Clock): Promise<number | null> {
  const found = await storage.stat(key).catch(() => undefined);
  const modified = found?.modifiedAt;
  return modified === null || modified === undefined ? null : modified.getTime() - clock.now().getTime();
}

async function latency(storage: Storage, clock: Clock): Promise<Probe['latencyMs']> {
  const key = listedKey(`${probePrefix}${randomUUID()}`);
  const times: number[] = [];
  try {
    for (let trial = 0; trial < trials; trial += 1) {
      const started = clock.monotonic();
      await storage.stat(key);
      times.push(clock.monotonic() - started);
    }
  } catch {
    return null; // The listing comes next, and it will report the reason.
  }
  times.sort((a, b) => a - b);
  return { median: times[Math.floor(trials / 2)] as number, slowest: times.at(-1) as number };
}

async function firstOf(entries: AsyncIterable<unknown>): Promise<void> {
  const iterator = entries[Symbol.asyncIterator]();
  await iterator.next();
  await iterator.return?.();
}
