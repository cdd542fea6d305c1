import { randomUUID } from 'node:crypto';
import { linkSync, lstatSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from 'node:fs';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { WaybillError } from '../../lib/errors.ts';
import { errnoOf, isAbsent, undefinedIfAbsent } from '../../lib/system-errors.ts';
import type { BackupFile, Capabilities, LocalFiles, Modes, Move } from '../capabilities.ts';
import { type Key, listedKey, parentOf, siblingScratch, siblingStaging } from '../key.ts';
import { type FileModes, publishedModes } from '../modes.ts';
import type {
  Body,
  Change,
  Entry,
  FileIdentity,
  FileStat,
  ListOptions,
  Storage,
  StorageFacts,
  WriteOptions,
  Written,
} from '../storage.ts';
import { alreadyExists, localFailure, notFound, readOnly as refuseReadOnly } from '../storage-errors.ts';
import {
  entriesPerYield,
  LocalListing,
  removeEmptyDirectory,
  removeIfThere,
  removeTreeAt,
  sizeOf,
  statOf,
} from './entries.ts';
import { ImpliedDirectories } from './implied-directories.ts';
import { DirectoryHandles } from './local-directories.ts';
import { createFile, openToRead, readChunks, writeBody } from './local-files.ts';
import { fixModes } from './local-fix-modes.ts';
import { LocalNames } from './local-names.ts';
import { linkAbove, localObstacle } from './local-obstacles.ts';
import { realPathOrAbsolute, requireCreatableRoot, requireDirectory } from './local-root.ts';
import { UnsyncedNames } from './unsynced-names.ts';

/** If a file has two hard links and other users can write to it, they would change it under both names. */
const writableByOthers = 0o022;
/** Another file system, another user's file, too many links, or hard links are not supported. */
const linkRefusals = new Set(['EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

interface LocalOptions {
  readOnly?: boolean;
  mustExist?: boolean;
  dryRun?: boolean;
  /** The modes of new files and directories. They do not depend on the umask. */
  modes?: FileModes;
}

/**
 * Opens a directory on this machine. If `root` does not exist, its listing is empty, and the first write
 * creates it. If that is bound to fail, an error is thrown right away (see `createRoot`). With `mustExist`,
 * throws `storage_not_found` if the root does not exist, `storage_denied` if it cannot be accessed, and
 * `storage_permanent` if it is not a directory. With `readOnly`, permission to create the root is not
 * checked, except in a `dryRun`.
 */
export async function localStorage(root: string, options: LocalOptions = {}): Promise<LocalStorage> {
  const base = realPathOrAbsolute(root);
  if (options.mustExist === true) requireDirectory(root);
  else requireCreatableRoot(base, { makes: options.readOnly !== true || options.dryRun === true });
  return new LocalStorage(base, options);
}

/**
 * A storage on this machine. Writes and deletions never follow symbolic links below the root. Calls throw the
 * errors in the contract: `storage_not_found`, `storage_exists`, `storage_denied` (for any change if
 * `readOnly`), `storage_full`, `storage_transient`, `storage_permanent`, and `body_mismatch`.
 *
 * Metadata is accessed with synchronous calls. A system call takes three microseconds, but fifty if it has to
 * go through the thread pool, which is shared by all threads of the process.
 */
export class LocalStorage implements Storage, Omit<Capabilities, 'placeOf'> {
  readonly label: string;
  readonly facts: StorageFacts = {
    conditionalWrites: async () => 'create',
    keepsHeaders: false,
    clockOffsetMs: 0,
  };
  readonly renameKind = 'atomic';
  readonly movesDirectories = true;
  readonly maxBackupBytes = null;
  readonly localFiles: LocalFiles;
  readonly fixModes: Modes['fixModes'];
  readonly #isReadOnly: boolean;
  readonly #fileMode: number;
  readonly #handles: DirectoryHandles;
  readonly #directories: ImpliedDirectories;
  readonly #names: LocalNames;
  readonly #unsynced: UnsyncedNames;
  /** The number of synchronous calls since the last yield to the event loop. */
  #calls = 0;

  /** `root` must be an absolute path. The part of it that exists must not contain any links. */
  constructor(root: string, { readOnly = false, modes = publishedModes }: LocalOptions) {
    this.label = /^[\w./-]*$/.test(root) ? root : JSON.stringify(root);
    this.#isReadOnly = readOnly;
    this.#fileMode = modes.file;
    this.#handles = new DirectoryHandles(root);
    this.#unsynced = new UnsyncedNames(this.#handles);
    this.#directories = new ImpliedDirectories(this, this.#handles, this.#unsynced, modes.directory);
    this.#names = new LocalNames(this, this.#handles, this.#directories, this.#unsynced);
    this.localFiles = { sizeOf: (key) => this.#handles.withEntryPath(key, sizeOf) };
    this.fixModes = (managed, how) => fixModes(this.#handles, modes, managed, how);
  }

  async stat(key: Key): Promise<FileStat | undefined> {
    return this.#guarded(key, async () => statOf(() => this.#at(key)));
  }

  list(directory: Key | '', options: ListOptions): AsyncIterable<Entry> {
    return new LocalListing(this, this.#handles, options).entriesBelow(directory);
  }

  async *read(key: Key, expected?: FileIdentity): AsyncIterable<Uint8Array> {
    try {
      yield* readChunks(() => this.#openFile(key, expected));
    } catch (error) {
      throw isAbsent(error) ? notFound(this, key, error) : localFailure(this, key, error);
    }
  }

  async write(key: Key, body: Body, options: WriteOptions): Promise<Written> {
    return this.#changing(key, async () => {
      if (options.mode !== 'scratch') return this.#writeWhole(key, body, options);
      const written = await this.#writeTo(key, key, body, options);
      this.#names.staged(key);
      return written;
    });
  }

  async rename(moves: readonly Move[]): Promise<void> {
    await this.#names.rename(moves, (key) => this.#requireWritable(key));
  }

  async obstacleTo(change: Change): Promise<WaybillError | null> {
    return this.#guarded('', () => localObstacle(this, this.#handles, change));
  }

  async backUp(key: Key, aside: Key): Promise<BackupFile | null> {
    return this.#changing(key, async () => {
      await this.#yieldPeriodically();
      return this.#names.backUp(key, aside);
    });
  }

  async restore(backup: BackupFile): Promise<void> {
    await this.#changing(backup.key, () => this.#names.restore(backup));
  }

  async duplicate(from: Key, to: Key): Promise<'link' | null> {
    return this.#changing(to, async () => {
      await this.#yieldPeriodically();
      const found = undefinedIfAbsent(() => lstatSync(this.#at(from)));
      const mayBeShared = found?.isFile() === true && (found.mode & writableByOthers) === 0;
      undefinedIfAbsent(() => unlinkSync(this.#at(to)));
      if (!mayBeShared) return null;
      try {
        await this.#directories.withParent(to, async () => linkSync(this.#at(from), this.#at(to)));
      } catch (error) {
        const isGone = isAbsent(error) && undefinedIfAbsent(() => lstatSync(this.#at(from))) === undefined;
        if (!isGone && !linkRefusals.has(errnoOf(error) ?? '')) throw error;
        return null;
      }
      this.#unsynced.changed(to);
      return 'link';
    });
  }

  async readLink(key: Key): Promise<string | null> {
    return this.#guarded(key, async () => {
      const isLink = undefinedIfAbsent(() => lstatSync(this.#at(key)))?.isSymbolicLink() === true;
      return isLink ? readlinkSync(this.#at(key)) : null;
    });
  }

  async replaceLink(key: Key, target: Key): Promise<void> {
    const scratch = siblingScratch(key);
    await this.#changing(key, async () => {
      await this.#unsynced.flush();
      try {
        await this.#directories.withParent(scratch, async () => symlinkSync(target, this.#at(scratch)));
        const found = lstatSync(this.#at(key), { throwIfNoEntry: false });
        if (found !== undefined && !found.isSymbolicLink()) throw alreadyExists(this, key);
        renameSync(this.#at(scratch), this.#at(key));
        await this.#handles.makeDurable([], [parentOf(key)]);
      } finally {
        this.#leaveStaging(key, scratch);
      }
    });
  }

  async sync(): Promise<void> {
    await this.#guarded('', () => this.#unsynced.flushAll());
  }

  async remove(key: Key): Promise<void> {
    this.#requireWritable(key);
    this.#refuseLinkAbove(key);
    try {
      await this.#unsynced.flush();
      unlinkSync(this.#at(key));
      this.#unsynced.removed(key);
    } catch (error) {
      // Directories are not deleted here. They fail with EISDIR on Linux, and EPERM on other systems.
      const isDirectory = undefinedIfAbsent(() => lstatSync(this.#at(key)))?.isDirectory() === true;
      if (!isAbsent(error) && !isDirectory) throw localFailure(this, key, error);
    }
    const staging = siblingStaging(key);
    if (this.#directories.isKept(staging)) this.#directories.removeEmpty(staging);
    this.#directories.removeEmpty(parentOf(key));
  }

  async removeTree(directory: Key): Promise<void> {
    this.#requireWritable(directory);
    this.#refuseLinkAbove(directory);
    try {
      await this.#unsynced.flush();
      if (!removeEmptyDirectory(this.#handles, directory)) {
        const aside = listedKey(`${directory}.gone-${randomUUID()}`);
        renameSync(this.#at(directory), this.#at(aside));
        this.#handles.moved(directory);
        await removeTreeAt(this.#handles, aside);
      }
    } catch (error) {
      if (!isAbsent(error)) throw localFailure(this, directory, error);
    }
    this.#directories.removeEmpty(parentOf(directory));
  }

  async close(): Promise<void> {
    this.#directories.close();
    this.#names.clear();
    this.#handles.close();
  }

  #at(key: Key): string {
    return this.#handles.entryPath(key);
  }

  #openFile(key: Key, expected?: FileIdentity): number {
    return this.#handles.withEntryPath(key, (file) => openToRead(this, key, file, expected));
  }

  #requireWritable(key: Key): void {
    if (this.#isReadOnly) throw refuseReadOnly(this, key);
  }

  async #guarded<T>(key: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw localFailure(this, key, error);
    }
  }

  async #changing<T>(key: Key, change: () => Promise<T>): Promise<T> {
    this.#requireWritable(key);
    return this.#guarded(key, change);
  }

  /** Gives timers a chance to run, especially the lease's, in loops of calls that never wait. */
  async #yieldPeriodically(): Promise<void> {
    this.#calls += 1;
    if (this.#calls % entriesPerYield === 0) await yieldToEventLoop();
  }

  #refuseLinkAbove(key: Key): void {
    let refusal: WaybillError | null = null;
    try {
      refusal = linkAbove(this, this.#handles, key);
    } catch (error) {
      if (!isAbsent(error)) throw localFailure(this, key, error);
    }
    if (refusal !== null) throw refusal;
  }

  /** Writes a body to the new file `target`, which will be moved to `key`. */
  async #writeTo(key: Key, target: Key, body: Body, options: WriteOptions): Promise<Written> {
    const create = (): number => this.#handles.withEntryPath(target, (at) => createFile(at, this.#fileMode));
    return this.#directories.withParent(target, () => writeBody(key, create, body, options));
  }

  /** Writes a file to staging and then moves it. An interrupted write is cleaned up with staging. */
  async #writeWhole(key: Key, body: Body, options: WriteOptions): Promise<Written> {
    const scratch = siblingScratch(key);
    try {
      const written = await this.#writeTo(key, scratch, body, options);
      await this.#handles.makeDurable([scratch]);
      if (options.mode === 'create') {
        this.#linkIfFree(scratch, key);
        // The process that gets the lock stages files next, so keep the directory until the lock is removed.
        this.#directories.keep(siblingStaging(key));
      } else {
        await this.#unsynced.flushAll();
        renameSync(this.#at(scratch), this.#at(key));
        await this.#handles.makeDurable([], [parentOf(key)]);
      }
      return written;
    } finally {
      this.#leaveStaging(key, scratch);
    }
  }

  #leaveStaging(key: Key, scratch: Key): void {
    removeIfThere(this.#handles, scratch);
    const staging = siblingStaging(key);
    if (!this.#directories.isKept(staging)) this.#directories.removeEmpty(staging);
  }

  #linkIfFree(from: Key, to: Key): void {
    try {
      linkSync(this.#at(from), this.#at(to));
    } catch (error) {
      throw errnoOf(error) === 'EEXIST' ? alreadyExists(this, to, error) : error;
    }
  }
}
