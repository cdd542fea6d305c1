import type { Lease } from '../../catalog/lease/lease.ts';
import { stagingOf } from '../../catalog/lease/staged-copies.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { inParallel } from '../../lib/parallel.ts';
import type { Move } from '../../storage/capabilities.ts';
import { joinKey, type Key, keyOf } from '../../storage/key.ts';
import { canRename, type ObjectHeaders, type RenamingStorage } from '../../storage/storage.ts';
import { type PathSet, recordedIn } from '../decision/records.ts';
import type { PlannedOutput, Work } from '../plan.ts';
import { type AttemptOptions, SavedFiles } from './saved-files.ts';
import {
  inVisibleOrder,
  layOutStaging,
  missingDirectories,
  type StagedLayout,
  type StagedMove,
} from './staged-layout.ts';

/** Changes files on behalf of one attempt, and keeps track of the changes so that they can be rolled back. */
export class Attempt {
  readonly #plan: Work;
  readonly #options: AttemptOptions;
  readonly #saved: SavedFiles;
  readonly #abort: AbortSignal;
  /** The paths that were written, and those that `duplicate` linked or copied. */
  readonly applied = { written: new Set<string>(), linked: new Set<string>() };
  /** Keys whose files may have been written (`#written`) or removed (`#removed`) so far. */
  readonly #written = new Set<Key>();
  readonly #removed = new Set<Key>();
  /** Keys that the storage refused to change. It would probably refuse to restore them, too. */
  readonly #refused = new Set<Key>();
  /** Whether the server may still carry out a request that failed on our side. */
  #isUncertain = false;

  constructor(plan: Work, options: AttemptOptions) {
    this.#plan = plan;
    this.#options = options;
    this.#saved = new SavedFiles(options);
    const { lease, signal } = options;
    this.#abort = signal === undefined ? lease.signal : AbortSignal.any([lease.signal, signal]);
  }

  /**
   * Writes all outputs to the staging directory and verifies them. Returns null, without doing anything, if
   * the storage does not support renames.
   */
  async stage(): Promise<StagedLayout<PlannedOutput> | null> {
    const { storage, concurrency } = this.#options;
    const { writes } = this.#plan;
    if (!canRename(storage)) return null;
    const missing = storage.movesDirectories ? await missingDirectories(storage, writes) : new Set<string>();
    const layout = layOutStaging(writes, missing);
    await inParallel(writes.entries(), concurrency, async ([index, output]) => {
      this.#throwIfOver();
      await this.#write(this.#stagedKey(layout.stagedName(index)), output, 'scratch');
    });
    return layout;
  }

  /** Backs up every file that the attempt is about to replace or remove. */
  async save(): Promise<void> {
    const mayExist = pathsThatMayExist(this.#plan, this.#options.lease);
    const replaced = this.#plan.writes.flatMap(({ path }) => (mayExist.has(path) ? [keyOf(path)] : []));
    await this.#saved.save([...replaced, ...this.#plan.removes]);
  }

  /**
   * Moves the staged outputs to their final paths or, without a layout, writes each output there directly.
   * Assets go first, so that no page refers to a missing one.
   */
  async putInPlace(layout: StagedLayout<PlannedOutput> | null): Promise<void> {
    const { storage, concurrency } = this.#options;
    for (const group of layout?.groups ?? inVisibleOrder(this.#plan.writes)) {
      if (layout !== null && canRename(storage)) await this.#moveInPlace(storage, layout, group);
      else
        await inParallel(group, concurrency, async (output) => {
          this.#throwIfOver();
          const key = keyOf(output.path);
          this.#written.add(key);
          await this.#changing(async () => this.#write(key, output, 'replace'), key);
        });
    }
  }

  async #moveInPlace(
    storage: RenamingStorage,
    layout: StagedLayout<PlannedOutput>,
    group: readonly PlannedOutput[],
  ): Promise<void> {
    const { lease } = this.#options;
    for (const some of batchesOf(group)) {
      const moves = Array.from(layout.movesOf(some), (move) => this.#move(move));
      lease.check();
      for (const { path } of some) this.#written.add(keyOf(path));
      await this.#changing(async () => storage.rename(moves));
    }
  }

  async remove(removes: readonly Key[]): Promise<void> {
    const { storage, lease, concurrency } = this.#options;
    await inParallel(removes, concurrency, async (key) => {
      lease.check();
      this.#removed.add(key);
      const aside = this.#saved.backupKeyOf(key);
      if (aside !== undefined && canRename(storage))
        await this.#changing(async () => storage.rename([{ from: key, to: aside }]));
      await this.#changing(async () => storage.remove(key), aside === undefined ? key : undefined);
    });
  }

  /**
   * Deletes the backup copies before the commit. Nothing can be restored after that. Throws the storage's
   * error.
   */
  async discardOrThrow(): Promise<void> {
    await this.#saved.discardOrThrow();
  }

  /** Deletes the backup copies after the commit. Never throws. */
  async discard(): Promise<void> {
    await this.#saved.discard();
  }

  /**
   * Rolls the attempt back after `failure`: deletes the files it created, restores those it replaced or
   * removed, and finally restores the state. If a file could not be restored, or if a request without a
   * response might still change one, the intent is left in place for the next run. Never throws, because the
   * caller should report `failure`.
   */
  async undo(failure: unknown): Promise<void> {
    const { storage, lease, log } = this.#options;
    // Once the lease is lost, the files belong to another attempt. If the commit may have gone through,
    // deleting anything could destroy published files.
    if (hasCode(failure, 'lease_lost') || hasCode(failure, 'commit_unknown')) return;
    try {
      lease.check();
      await lease.fence();
      await this.#undoChanges();
      // Delete the staged outputs first. On a full disk, there may be no room to write the old state
      // otherwise.
      if (storage.rename !== undefined) await storage.removeTree(stagingOf(lease.attemptId));
      if (this.#isUncertain)
        log.warn(
          { storage: storage.label },
          'the failed attempt was undone, but the server may still carry out one of its requests; the next run checks',
        );
      else {
        // The next attempt only cleans up copies if there is a state.
        if (lease.found.raw === null) await this.#saved.discardOrThrow();
        await lease.restoreState();
      }
      await this.#saved.discard();
    } catch (error) {
      log.warn(
        { storage: storage.label, err: error },
        'the failed attempt was not undone; the next run finishes it',
      );
    }
  }

  /**
   * Deletes created files before restoring others, because they may be in the way. Carries on after errors.
   */
  async #undoChanges(): Promise<void> {
    const { storage, lease, concurrency } = this.#options;
    const failures: unknown[] = [];
    const each = async (keys: Iterable<Key>, work: (key: Key) => Promise<void>): Promise<void> =>
      inParallel(keys, concurrency, async (key) => {
        lease.check();
        await work(key).catch((error: unknown) => {
          if (!this.#refused.has(key)) failures.push(error);
        });
      });
    const created = [...this.#written].filter((key) => this.#saved.backupOf(key) === undefined);
    await each(created, async (key) => storage.remove(key));
    await each(new Set([...this.#written, ...this.#removed]), async (key) => {
      const backup = this.#saved.backupOf(key);
      if (backup !== undefined) await storage.restore?.(backup);
    });
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Runs `work`, which changes files, and notes what may have happened if it fails. Pass `key` if `work`
   * changes only that file and does so atomically; if the storage then refuses, the file is known to be
   * unchanged.
   */
  async #changing(work: () => Promise<void>, key?: Key): Promise<void> {
    try {
      await work();
    } catch (error) {
      // A full storage refuses, too, although the run is retried.
      const isRefusal = error instanceof WaybillError && (!error.retryable || error.code === 'storage_full');
      const isLocal = this.#options.storage.localFiles !== undefined;
      if (!isRefusal && !isLocal) this.#isUncertain = true;
      if (isRefusal && key !== undefined) this.#refused.add(key);
      throw error;
    }
  }

  async #write(key: Key, output: PlannedOutput, mode: 'scratch' | 'replace'): Promise<void> {
    const { storage, onBytes, onOutput, duplicate } = this.#options;
    if ((await duplicate?.(output, key)) === true) {
      this.applied.linked.add(output.path);
      onBytes?.(output.size);
    } else {
      await storage.write(key, output.body, {
        mode,
        digest: output.digest,
        outputName: output.path,
        headers: headersOf(output),
        isContent: true,
        signal: this.#abort,
        onBytes,
      });
      this.applied.written.add(output.path);
    }
    onOutput?.(output.path);
  }

  #move({ from: staged, to, isDirectory }: StagedMove): Move {
    const from = this.#stagedKey(staged);
    if (isDirectory) return { from, to, isDirectory };
    const aside = this.#saved.backupKeyOf(to);
    return aside === undefined ? { from, to } : { from, to, aside };
  }

  #throwIfOver(): void {
    this.#options.lease.check();
    this.#abort.throwIfAborted();
  }

  #stagedKey(name: string): Key {
    return joinKey(stagingOf(this.#options.lease.attemptId), name);
  }
}

/**
 * How many files to rename per call. Every call ends with a sync to disk, so large batches are faster. A file
 * takes up about 600 bytes of memory for its two names.
 */
const renameBatch = 32_768;

function* batchesOf<T>(all: readonly T[]): Iterable<readonly T[]> {
  for (let from = 0; from < all.length; from += renameBatch) yield all.slice(from, from + renameBatch);
}

/**
 * Returns the planned paths where a file may already exist. With a valid state, these are the recorded and
 * announced paths. Without one, or if force clears everything, any planned path may exist.
 */
function pathsThatMayExist(plan: Work, { found: { state } }: Lease): PathSet {
  if (state.kind === 'valid' && !plan.clears) return recordedIn(state);
  return plan.action === 'publish_new' ? new Set() : new Set(plan.writes.map(({ path }) => path));
}

function headersOf({ generated: { contentType, cacheControl } }: PlannedOutput): ObjectHeaders {
  return {
    ...(contentType === null ? {} : { contentType }),
    ...(cacheControl === null ? {} : { cacheControl }),
  };
}
