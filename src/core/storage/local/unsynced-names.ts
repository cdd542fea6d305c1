import { lockName, stagingName } from '../../lib/paths.ts';
import { type Key, nameOf, parentOf } from '../key.ts';
import type { DirectoryHandles } from './directories.ts';

/**
 * The directories with changes of names that a power loss may undo. The removal of a lock, and directories of
 * staging, are not synced: the next publisher sweeps what is left.
 */
export class UnsyncedNames {
  readonly #handles: DirectoryHandles;
  /** These are synced before the next change of names. */
  readonly #changed = new Set<Key | ''>();
  /** These are synced before the next rename. */
  readonly #removed = new Set<Key | ''>();
  #flushing: Promise<void> | null = null;

  constructor(handles: DirectoryHandles) {
    this.#handles = handles;
  }

  /** The file was created or replaced. */
  changed(key: Key): void {
    this.#changed.add(parentOf(key));
  }

  /** The directory was created. */
  made(directory: Key): void {
    if (!isSwept(directory)) this.#changed.add(parentOf(directory));
  }

  /** The file or directory was removed. */
  removed(key: Key): void {
    if (!isSwept(key)) this.#removed.add(parentOf(key));
  }

  /** The directories with changed names. */
  directories(): Iterable<Key | ''> {
    return this.#changed;
  }

  /** The caller syncs the names in this directory. */
  forget(directory: Key | ''): void {
    this.#changed.delete(directory);
  }

  /**
   * Makes the changed names durable. A concurrent call returns when they are. Throws system errors as Node.js
   * reports them.
   */
  async flush(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing;
    if (this.#changed.size === 0) return;
    const flushed = [...this.#changed];
    this.#changed.clear();
    this.#flushing = this.#handles.makeDurable([], flushed).finally(() => (this.#flushing = null));
    await this.#flushing;
  }

  /** Makes the removals durable as well. */
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
