import { recordedPaths } from '../../catalog/recorded-paths.ts';
import { hasCode } from '../../errors.ts';
import type { Lease } from '../../lease/lease.ts';
import { stagingOf } from '../../lease/staging.ts';
import type { Log } from '../../log.ts';
import { inParallel } from '../../parallel.ts';
import { namingBody } from '../../storage/body.ts';
import { joinKey, keyOf, type Key } from '../../storage/key.ts';
import type { ObjectHeaders, Storage } from '../../storage/storage.ts';
import type { Plan, PlannedOutput } from '../plan.ts';

export interface AttemptOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  log: Log;
  /** Files written, or removed, at once. */
  concurrency: number;
  signal?: AbortSignal;
  /** Called with the size in bytes of each chunk that was written. */
  onBytes?: (count: number) => void;
  /** Called with the path of each output that was staged. */
  onOutput?: (path: string) => void;
}

/**
 * The changes of one attempt to the files at its destination. Remembers what it has done, which is all that
 * cleaning up after a failure needs to know.
 */
export class Attempt {
  readonly #plan: Plan;
  readonly #options: AttemptOptions;
  readonly #existedBefore: Set<string>;
  /** Paths that did not exist before and may exist now because of this attempt. */
  readonly #created = new Set<Key>();
  /** Whether something that existed before may have been overwritten or removed. */
  #visibleChange = false;

  constructor(plan: Plan, options: AttemptOptions) {
    this.#plan = plan;
    this.#options = options;
    this.#existedBefore = pathsThatMayExist(plan, options.lease);
  }

  /** Writes and verifies every output: in staging if the storage can rename, else in place. */
  async stage(): Promise<void> {
    const { storage, lease, concurrency, signal, onBytes, onOutput } = this.#options;
    const inPlace = storage.facts.rename === 'none';
    const abort = signal === undefined ? lease.signal : AbortSignal.any([lease.signal, signal]);
    await inParallel(this.#plan.writes.entries(), concurrency, async ([index, output]) => {
      lease.check();
      abort.throwIfAborted();
      const target = keyOf(output.path);
      const key = inPlace ? target : this.#stagedKey(index);
      if (inPlace) this.#touches(target);
      const written = storage.write(key, output.body, {
        mode: inPlace ? 'replace' : 'scratch',
        digest: output.digest,
        headers: headersOf(output),
        signal: abort,
        ...(onBytes === undefined ? {} : { onBytes }),
      });
      await namingBody(output.path, written);
      onOutput?.(output.path);
    });
  }

  /** Renames what was staged to where it belongs; nothing to do if it was written in place. */
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

  /**
   * Cleans up after `failure`: removes what the attempt created, and puts the state back unless something
   * visible was changed. Never throws, because `failure` is the error to report.
   */
  async undo(failure: unknown): Promise<void> {
    const { storage, lease, log, concurrency } = this.#options;
    // Without the lease nothing here belongs to this attempt. As long as the commit is unknown, nothing may
    // be deleted.
    if (hasCode(failure, 'lease_lost') || hasCode(failure, 'commit_unknown')) return;
    try {
      lease.check();
      await lease.fence();
      await inParallel(this.#created, concurrency, async (key) => storage.remove(key));
      // Frees the space of the staged outputs: on a full disk the old state would not fit beside them.
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
    if (this.#existedBefore.has(target)) this.#visibleChange = true;
    else this.#created.add(target);
  }

  #stagedKey(index: number): Key {
    return joinKey(stagingOf(this.#options.lease.attemptId), `output-${index}`);
  }
}

/** Planned paths that may hold a file before the attempt: recorded, announced, or replaced by force. */
function pathsThatMayExist(plan: Plan, { found: { state } }: Lease): Set<string> {
  if (state.kind === 'valid' && !plan.clears) return recordedPaths(state);
  return plan.action === 'publish_new' ? new Set() : new Set(plan.writes.map(({ path }) => path));
}

function headersOf({ generated: { contentType, cacheControl } }: PlannedOutput): ObjectHeaders {
  return {
    ...(contentType === null ? {} : { contentType }),
    ...(cacheControl === null ? {} : { cacheControl }),
  };
}
