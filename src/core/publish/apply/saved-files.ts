import { stagingOf } from '../../lease/staging.ts';
import { inParallel } from '../../parallel.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import type { Kept } from '../../storage/storage.ts';
import type { AttemptOptions } from './attempt-options.ts';

/** The files that an attempt replaces or removes, as they were before it. */
export class SavedFiles {
  readonly #options: AttemptOptions;
  readonly #byKey = new Map<Key, Kept>();
  /** Whether there may be copies in staging: one whose answer was lost may have been made. */
  #hasCopies = false;

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  /** Keeps the files at these keys; those that do not exist are passed over. */
  async save(keys: readonly Key[]): Promise<void> {
    const { storage, lease, signal, concurrency } = this.#options;
    await inParallel(keys.entries(), concurrency, async ([index, key]) => {
      lease.check();
      // Nothing was changed yet, and on a remote storage this may take minutes.
      signal?.throwIfAborted();
      const kept = await storage.keep(key, this.#aside(index)).catch((error: unknown) => {
        this.#hasCopies = true;
        throw error;
      });
      if (kept !== null) this.#byKey.set(key, kept);
      if (kept?.by === 'copy') this.#hasCopies = true;
    });
  }

  /** The saved file of a key; undefined if there was none. */
  of(key: Key): Kept | undefined {
    return this.#byKey.get(key);
  }

  /** Where the file at a key has to be moved before it is replaced or removed; undefined for most. */
  movesTo(key: Key): Key | undefined {
    const kept = this.#byKey.get(key);
    return kept?.by === 'move' ? kept.aside : undefined;
  }

  /**
   * Removes the copies once they are of no more use. Other storages than object stores sweep the staging of
   * the attempt when its lease is released. Never throws, because the next attempt sweeps what is left.
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

  /** Like `discard`; throws the storage's error. */
  async discardSurely(): Promise<void> {
    const { storage, lease } = this.#options;
    if (storage.facts.rename !== 'none' || !this.#hasCopies) return;
    await storage.removeTree(stagingOf(lease.attemptId));
    this.#hasCopies = false;
  }

  #aside(index: number): Key {
    return joinKey(stagingOf(this.#options.lease.attemptId), `kept-${index}`);
  }
}
