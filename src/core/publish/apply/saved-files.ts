import type { Lease } from '../../catalog/lease/lease.ts';
import { stagingOf } from '../../catalog/lease/staging.ts';
import type { Log } from '../../lib/log.ts';
import { inParallel } from '../../lib/parallel.ts';
import type { Kept } from '../../storage/capabilities.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import { canKeep, type Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

export interface AttemptOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  log: Log;
  /** The number of files written, kept or removed concurrently. */
  concurrency: number;
  signal?: AbortSignal;
  /**
   * Copies or links an output to a key from elsewhere in the storage. Returns false if the output must be
   * written instead.
   */
  duplicate?: (output: PlannedOutput, to: Key) => Promise<boolean>;
  /** Called with the size of each written chunk, in bytes. */
  onBytes?: (count: number) => void;
  /** Called with each output's path once it is written, or staged if the storage can rename. */
  onOutput?: (path: string) => void;
}

/** The original versions of files that an attempt replaces or removes. */
export class SavedFiles {
  readonly #options: AttemptOptions;
  readonly #byKey = new Map<Key, Kept>();
  /** Whether staging may contain copies, including any whose response was lost. */
  #hasCopies = false;

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  /** Saves the files at these keys. Skips keys without a file. */
  async save(keys: readonly Key[]): Promise<void> {
    const { storage, lease, signal, concurrency } = this.#options;
    if (!canKeep(storage)) return;
    await inParallel(keys.entries(), concurrency, async ([index, key]) => {
      lease.check();
      // It is still safe to stop here, and saving to remote storage may take minutes.
      signal?.throwIfAborted();
      const kept = await storage.keep(key, this.#aside(index)).catch((error: unknown) => {
        this.#hasCopies = true;
        throw error;
      });
      if (kept !== null) this.#byKey.set(key, kept);
      if (kept?.by === 'copy') this.#hasCopies = true;
    });
  }

  /** Returns the file saved for a key, or undefined if there was none. */
  of(key: Key): Kept | undefined {
    return this.#byKey.get(key);
  }

  /** Returns where to move a file before it is replaced or removed, or undefined if it need not be moved. */
  movesTo(key: Key): Key | undefined {
    const kept = this.#byKey.get(key);
    return kept?.by === 'move' ? kept.aside : undefined;
  }

  /**
   * Removes the copies from an object store. Other storages sweep the attempt's staging directory when the
   * lease is released. Never throws, because the next attempt sweeps the rest.
   */
  async discard(): Promise<void> {
    const { storage, log } = this.#options;
    try {
      await this.discardSurely();
    } catch (error) {
      log.warn(
        { storage: storage.label, err: error },
        'copies of replaced files were not removed; the next run removes them',
      );
    }
  }

  /** Like `discard`, but throws the storage's error. */
  async discardSurely(): Promise<void> {
    const { storage, lease } = this.#options;
    if (storage.rename !== undefined || !this.#hasCopies) return;
    await storage.removeTree(stagingOf(lease.attemptId));
    this.#hasCopies = false;
  }

  #aside(index: number): Key {
    return joinKey(stagingOf(this.#options.lease.attemptId), `kept-${index}`);
  }
}
