import { lockName, stagingName } from '../../lib/paths.ts';
import { type Key, nameOf, parentOf } from '../key.ts';
import type { DirectoryHandles } from './directories.ts';

/**
 * Tracks directories with name changes that a power loss may undo. Lock removals and staging directories are
 * not synced, because the next publisher sweeps any remains.
 */
export class UnsyncedNames {
  readonly #handles: DirectoryHandles;
  /** Directories that are synced before the next name change. */
  readonly #changed = new Set<Key | ''>();
  /** Directories that are synced before the next rename. */
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

  /** Returns the directories with changed names. */
  directories(): Iterable<Key | ''> {
    return this.#changed;
  }

  /** Drops a directory whose names the caller syncs. */
  forget(directory: Key | ''): void {
    this.#changed.delete(directory);
  }

  /**
   * Makes the changed names durable. A concurrent call also waits until they are. Throws system errors as
   * reported by Node.js.
   */
  async flush(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing;
    if (this.#changed.size === 0) return;
    const flushed = [...this.#changed];
    this.#changed.clear();
    this.#flushing = this.#handles.makeDurable([], flushed).finally(() => (this.#flushing = null));
    await this.#flushing;
  }

  /** Also makes removals durable. */
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
