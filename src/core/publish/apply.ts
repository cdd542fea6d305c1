import { isReservedPath } from '../reserved-names.ts';
import type { AttemptAction, Catalog, OutputRecord } from '../catalog/catalog.ts';
import type { Lease } from '../lease/lease.ts';
import { isStoredKey } from '../catalog/parse-fields.ts';
import { recordedPaths } from '../catalog/recorded-paths.ts';
import { settleInterrupted, sweepUnfinished, type Settled } from '../catalog/settle-interrupted.ts';
import { intentOf } from '../lease/lease.ts';
import { stagingOf } from '../lease/staging.ts';
import { ancestorsOf } from '../paths.ts';
import type { Clock } from '../clock.ts';
import { hasCode } from '../errors.ts';
import type { Log } from '../log.ts';
import { inParallel } from '../parallel.ts';
import { joinKey, keyOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Plan, PlannedOutput } from './plan.ts';

export interface ApplyOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  clock: Clock;
  log: Log;
  /** Files written, and files removed, side by side. */
  concurrency: number;
  signal?: AbortSignal;
  onBytes?: (count: number) => void;
  onOutput?: (path: string) => void;
}

export interface Applied {
  outputsWritten: number;
  outputsRemoved: number;
  bytesWritten: number;
}

/**
 * Executes a plan under a lease, so that a kill at any moment leaves something that the next run finishes:
 *
 * 1. settle: what an earlier attempt left half done, and this plan does not touch, is recorded as it truly
 *   is;
 * 2. intent: the state names every path that this attempt may touch, before it touches any;
 * 3. stage: every output is written whole and verified, out of sight where the storage can rename, in place
 *   where it cannot;
 * 4. fence: is the lease still ours? Then what was staged is moved into place, and what the plan omits is
 *   removed. Where a directory becomes a
 *    file or a file a directory, what is in the way goes first: all that replaces it is staged by then;
 * 5. commit: the state records what is there, and the intent is gone.
 *
 * On a clean failure what the attempt created is removed, and the state is put back as it was found, unless
 * something visible was overwritten or removed: then the intent stays and the next run does the work over.
 */
export async function apply(plan: Plan, options: ApplyOptions): Promise<Applied> {
  const { storage, lease, clock } = options;
  const attempt = new Attempt(plan, options);
  try {
    const { outputs: base, vanished } = await settled(plan, options);
    const removes = plan.clears ? await everythingBut(storage, plan.writes) : plan.removes;
    await lease.writeState(intent(plan, options, base, removes));
    await sweepUnfinished(storage, vanished);
    await attempt.stage();
    await lease.fence();
    const inTheWay = storage.facts.rename === 'none' ? [] : blockers(plan.writes, removes);
    await attempt.remove(inTheWay);
    await attempt.putInPlace();
    const already = new Set(inTheWay);
    await attempt.remove(removes.filter((key) => !already.has(key)));
    await lease.writeState(committed(plan, lease, base, clock.now()));
    return {
      outputsWritten: plan.writes.length,
      outputsRemoved: removes.length,
      bytesWritten: totalSize(plan.writes),
    };
  } catch (error) {
    const failure = await whyItFailed(error, lease);
    await attempt.undo(failure);
    throw failure;
  }
}

/** Staged files that are gone were swept by who took the lease over, and that is what to tell. */
async function whyItFailed(error: unknown, lease: Lease): Promise<unknown> {
  if (!hasCode(error, 'storage_not_found')) return error;
  return lease.fence().then(
    () => error,
    (lost: unknown) => (hasCode(lost, 'lease_lost') ? lost : error),
  );
}

/**
 * The records that the catalog keeps beside the planned ones, and what an interrupted attempt announced and
 * did not finish.
 */
async function settled(plan: Plan, { storage, lease }: ApplyOptions): Promise<Settled> {
  const { state } = lease.found;
  if (plan.clears) return { outputs: [], vanished: [] };
  if (state.kind !== 'valid' || state.catalog.pending === null) return { outputs: plan.keeps, vanished: [] };
  const handled = new Set<string>([...plan.writes.map(({ path }) => path), ...plan.removes]);
  return settleInterrupted(storage, state.catalog, handled);
}

/**
 * A forced replacement removes every file below the bundle path but the publisher's own and those it has just
 * written.
 */
async function everythingBut(storage: Storage, writes: readonly PlannedOutput[]): Promise<Key[]> {
  const written = new Set<string>(writes.map(({ path }) => path));
  const removes: Key[] = [];
  for await (const { key } of storage.list('', { recursive: true }))
    if (!isReservedPath(key) && !written.has(key)) removes.push(key);
  return removes;
}

function intent(
  plan: Plan,
  { lease, clock }: ApplyOptions,
  base: readonly OutputRecord[],
  removes: readonly Key[],
): Catalog {
  const startedAt = clock.now().toISOString();
  const pending = intentOf(lease, {
    owner: plan.owner,
    action: plan.action as AttemptAction,
    startedAt,
    outputs: plan.writes.map((output) => recordOf(output, startedAt)),
    // Left behind by a crash, what no state can name is unmanaged content, as it was before.
    removes: removes.filter(isStoredKey),
  });
  // The old records of what is about to be written or removed stay until the commit: they say what was there.
  const touched = new Set<string>([...plan.writes.map(({ path }) => path), ...removes]);
  const { state } = lease.found;
  const before =
    state.kind === 'valid' && !plan.clears
      ? state.catalog.outputs.filter(({ path }) => touched.has(path))
      : [];
  const updatedAt = state.kind === 'valid' ? state.catalog.updatedAt : startedAt;
  return { generation: generationOf(lease), updatedAt, outputs: [...base, ...before], pending };
}

function committed(plan: Plan, lease: Lease, base: readonly OutputRecord[], now: Date): Catalog {
  const updatedAt = now.toISOString();
  const written = plan.writes.map((output) => recordOf(output, updatedAt));
  return { generation: generationOf(lease) + 1, updatedAt, outputs: [...base, ...written], pending: null };
}

function generationOf({ found: { state } }: Lease): number {
  return state.kind === 'valid' ? state.catalog.generation : 0;
}

function recordOf(output: PlannedOutput, updatedAt: string): OutputRecord {
  const { path, owner, source, kind, digest, size, generated, url } = output;
  return { path, owner, source, kind, digest, size, updatedAt, generated, url };
}

/** What one attempt has done so far; all that cleaning up needs to know. */
class Attempt {
  readonly #plan: Plan;
  readonly #options: ApplyOptions;
  readonly #recordedBefore: Set<string>;
  /** Paths that did not exist before and may exist now because of this attempt. */
  readonly #created = new Set<Key>();
  #visibleChange = false;

  constructor(plan: Plan, options: ApplyOptions) {
    this.#plan = plan;
    this.#options = options;
    this.#recordedBefore = pathsThatMayExist(plan, options.lease);
  }

  async stage(): Promise<void> {
    const { storage, lease, concurrency, signal, onBytes, onOutput } = this.#options;
    const inPlace = storage.facts.rename === 'none';
    const abort = anySignal(lease.signal, signal);
    await inParallel(this.#plan.writes.entries(), concurrency, async ([index, output]) => {
      lease.check();
      abort.throwIfAborted();
      const target = keyOf(output.path);
      const key = inPlace ? target : this.#stagedKey(index);
      if (inPlace) this.#touches(target);
      await storage.write(key, output.body, {
        mode: inPlace ? 'replace' : 'scratch',
        digest: output.digest,
        headers: headersOf(output),
        signal: abort,
        ...(onBytes === undefined ? {} : { onBytes }),
      });
      onOutput?.(output.path);
    });
  }

  async putInPlace(): Promise<void> {
    const { storage, lease } = this.#options;
    if (storage.facts.rename === 'none') return;
    const moves = this.#plan.writes.map((output, index) => ({
      from: this.#stagedKey(index),
      to: keyOf(output.path),
    }));
    for (const { to } of moves) this.#touches(to);
    lease.check();
    await storage.rename(moves);
  }

  async remove(removes: readonly Key[]): Promise<void> {
    const { storage, lease, concurrency } = this.#options;
    await inParallel(removes, concurrency, async (key) => {
      lease.check();
      this.#visibleChange = true;
      await storage.remove(key);
    });
  }

  /** Never throws: the failure that led here is the one to tell. */
  async undo(failure: unknown): Promise<void> {
    const { storage, lease, log, concurrency } = this.#options;
    // Without the lease nothing here is ours to touch; without knowledge of the commit, nothing may be
    // deleted.
    if (hasCode(failure, 'lease_lost') || hasCode(failure, 'commit_unknown')) return;
    try {
      lease.check();
      await lease.fence();
      await inParallel(this.#created, concurrency, async (key) => storage.remove(key));
      // Gives back the room that the staged outputs took: on a full disk the state would not fit beside them.
      if (storage.facts.rename !== 'none') await storage.removeTree(stagingOf(lease.attemptId));
      if (!this.#visibleChange) await lease.restoreState();
    } catch (error) {
      log.warn(
        { storage: storage.label, err: error },
        'the failed attempt was not cleaned up; the next run finishes it',
      );
    }
  }

  #touches(target: Key): void {
    if (this.#recordedBefore.has(target)) this.#visibleChange = true;
    else this.#created.add(target);
  }

  #stagedKey(index: number): Key {
    return joinKey(stagingOf(this.#options.lease.attemptId), `output-${index}`);
  }
}

/**
 * Planned paths under which something may lie before the attempt begins: recorded, announced, or about to be
 * replaced by force.
 */
function pathsThatMayExist(plan: Plan, { found: { state } }: Lease): Set<string> {
  if (state.kind === 'valid' && !plan.clears) return recordedPaths(state);
  return plan.action === 'publish_new' ? new Set() : new Set(plan.writes.map(({ path }) => path));
}

function blockers(writes: readonly PlannedOutput[], removes: readonly Key[]): Key[] {
  const files = new Set<string>(writes.map(({ path }) => path));
  const directories = new Set<string>();
  for (const path of files) for (const ancestor of ancestorsOf(path)) directories.add(ancestor);
  return removes.filter(
    (key) => directories.has(key) || [...ancestorsOf(key)].some((ancestor) => files.has(ancestor)),
  );
}

function headersOf({ generated: { contentType, cacheControl } }: PlannedOutput): {
  contentType?: string;
  cacheControl?: string;
} {
  return {
    ...(contentType === null ? {} : { contentType }),
    ...(cacheControl === null ? {} : { cacheControl }),
  };
}

function anySignal(lease: AbortSignal, outer: AbortSignal | undefined): AbortSignal {
  return outer === undefined ? lease : AbortSignal.any([lease, outer]);
}

function totalSize(outputs: readonly PlannedOutput[]): number {
  return outputs.reduce((sum, { size }) => sum + size, 0);
}
