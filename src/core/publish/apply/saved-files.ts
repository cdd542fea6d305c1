import type { Lease } from '../../catalog/lease/lease.ts';
import { stagingOf } from '../../catalog/lease/staged-copies.ts';
import type { Log } from '../../lib/log.ts';
import { inParallel } from '../../lib/parallel.ts';
import type { BackupFile } from '../../storage/capabilities.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import { canKeep, type Storage } from '../../storage/storage.ts';
import type { PlannedOutput } from '../plan.ts';

export interface AttemptOptions {
  /** Rooted at the destination bundle path. */
  storage: Storage;
  lease: Lease;
  log: Log;
  /** How many files to write, keep or remove at a time. */
  concurrency: number;
  signal?: AbortSignal;
  /**
   * Links or copies an output to `to` from somewhere else in the storage. Returns false if that is not
   * possible and the output has to be written.
   */
  duplicate?: (output: PlannedOutput, to: Key) => Promise<boolean>;
  /** Called with the size of each written chunk, in bytes. */
  onBytes?: (count: number) => void;
  /** Called with each output's path once it is written, or staged if the storage can rename. */
  onOutput?: (path: string) => void;
}

/** Backups of the files that an attempt replaces or removes. */
export class SavedFiles {
  readonly #options: AttemptOptions;
  readonly #byKey = new Map<Key, BackupFile>();
  /**
   * Whether there may be copies in the staging directory. A copy request whose response was lost counts, too.
   */
  #hasCopies = false;

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  /** Backs up the files at these keys. Keys without a file are skipped. */
  async save(keys: readonly Key[]): Promise<void> {
    const { storage, lease, signal, concurrency } = this.#options;
    if (!canKeep(storage)) return;
    await inParallel(keys.entries(), concurrency, async ([index, key]) => {
      lease.check();
      // Stopping here is still safe, and backing up files on remote storage can take minutes.
      signal?.throwIfAborted();
      const backup = await storage.backUp(key, this.#aside(index)).catch((error: unknown) => {
        this.#hasCopies = true;
        throw error;
      });
      if (backup !== null) this.#byKey.set(key, backup);
      if (backup?.method === 'copy') this.#hasCopies = true;
    });
  }

  backupOf(key: Key): BackupFile | undefined {
    return this.#byKey.get(key);
  }

  /**
   * Returns the key to move the file to before it is replaced or removed, or undefined if there is no need to
   * move it.
   */
  backupKeyOf(key: Key): Key | undefined {
    const backup = this.#byKey.get(key);
    return backup?.method === 'move' ? backup.aside : undefined;
  }

  /**
   * Deletes the copies from an object store. On other storage, the attempt's staging directory is cleaned up
   * when the lease is released. Never throws, because the next attempt deletes any leftovers.
   */
  async discard(): Promise<void> {
    const { storage, log } = this.#options;
    try {
      await this.discardOrThrow();
    } catch (error) {
      log.warn(
        { storage: storage.label, err: error },
        'copies of replaced files were not removed; the next run removes them',
      );
    }
  }

  /** Like `discard`, but throws the storage's error. */
  async discardOrThrow(): Promise<void> {
    const { storage, lease } = this.#options;
    if (storage.rename !== undefined || !this.#hasCopies) return;
    await storage.removeTree(stagingOf(lease.attemptId));
    this.#hasCopies = false;
  }

  #aside(index: number): Key {
    return joinKey(stagingOf(this.#options.lease.attemptId), `kept-${index}`);
  }
}
