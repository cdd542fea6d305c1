import { lockName, stagingName } from '../../lib/paths.ts';
import { type Key, nameOf, parentOf } from '../key.ts';
import type { DirectoryHandles } from './local-directories.ts';

/**
 * Keeps track of directories in which names were changed that have not been synced yet, so that a power
 * failure could undo this. The removal of locks and staging directories is not synced, because the next
 * publisher cleans up whatever is left of them.
 */
export class UnsyncedNames {
  readonly #handles: DirectoryHandles;
  /** The directories to sync before the next change of a name. */
  readonly #changed = new Set<Key | ''>();
  /** The directories to sync before the next rename. */
  readonly #removed = new Set<Key | ''>();
  #flushing: Promise<void> | null = null;

  constructor(handles: DirectoryHandles) {
    this.#handles = handles;
  }

  /** Records that a file was created or replaced. */
  changed(key: Key): void {
    this.#changed.add(parentOf(key));
  }

  /** Records that a directory was created. */
  made(directory: Key): void {
    if (!isSwept(directory)) this.#changed.add(parentOf(directory));
  }

  /** Records that a file or directory was removed. */
  removed(key: Key): void {
    if (!isSwept(key)) this.#removed.add(parentOf(key));
  }

  /** The directories in which names were changed. */
  directories(): Iterable<Key | ''> {
    return this.#changed;
  }

  /** Removes a directory from the list, because the caller is going to sync it. */
  forget(directory: Key | ''): void {
    this.#changed.delete(directory);
  }

  /**
   * Syncs the changed names. If that is already in progress, waits for it. Throws system errors, as reported
   * by Node.js.
   */
  async flush(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing;
    if (this.#changed.size === 0) return;
    const flushed = [...this.#changed];
    this.#changed.clear();
    this.#flushing = this.#handles.makeDurable([], flushed).finally(() => (this.#flushing = null));
    await this.#flushing;
  }

  /** Syncs everything, including names that were removed. */
  async flushAll(): Promise<void> {
    for (const directory of this.#removed) this.#changed.add(directory);
    this.#removed.clear();
    await this.flush();
  }

  clear(): void {
    this.#changed.clear();
    this.#removed.clear();
  }
}

function isSwept(key: Key): boolean {
  return nameOf(key) === lockName || key.split('/').includes(stagingName);
}
