import { type Digest, digestOf } from '../../src/core/lib/digest.ts';
import { WaybillError } from '../../src/core/lib/errors.ts';
import { ancestorsOf } from '../../src/core/lib/paths.ts';
import { readBody } from '../../src/core/storage/body.ts';
import type { BackupFile, BackupMethod, Capabilities, Move } from '../../src/core/storage/capabilities.ts';
import { joinKey, type Key, listedKey } from '../../src/core/storage/key.ts';
import type {
  ConditionalWrites,
  Entry,
  FileStat,
  Storage,
  WriteOptions,
  Written,
} from '../../src/core/storage/storage.ts';
import {
  alreadyExists,
  notADirectory,
  notFound,
  notKept,
  readOnly,
  versionConflict,
} from '../../src/core/storage/storage-errors.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';

/**
 * The bytes of a memory storage. Several storages may share one, like several processes that share a disk.
 */
export type MemoryDisk = Map<string, MemoryFile>;

interface MemoryFile {
  bytes: Buffer;
  digest: Digest;
  version: string;
  /** The target if it is a symbolic link; `bytes` are the same. */
  target?: string;
}

export interface MemoryOptions {
  disk?: MemoryDisk;
  /** Behaves as a file system (renames, exclusive creation) or as an object store (conditional writes). */
  flavour: 'files' | 'objects';
  conditionalWrites?: ConditionalWrites;
  /** How files that are about to be replaced are kept. Default: by `link`, and objects by `copy`. */
  keepBy?: Exclude<BackupMethod, 'version'>;
  /** Larger files are not kept. */
  maxBackupBytes?: number;
  /** Whether files can be duplicated: by a link, or objects by a copy. Default: true. */
  duplicates?: boolean;
  readOnly?: boolean;
}

let versions = 0;

function entryOf(name: string, { bytes, target, version }: MemoryFile): Entry {
  const key = listedKey(name);
  if (target !== undefined) return { key, type: 'link', size: 0 };
  const stamp = { id: version, modifiedAt: new Date(0), isExact: true };
  return { key, type: 'file', size: bytes.length, stamp };
}

/** A storage in memory for tests: the shortest correct implementation of the contract. */
export function memoryStorage(options: MemoryOptions): Storage {
  const { disk = new Map<string, MemoryFile>(), flavour } = options;
  const honored = flavour === 'files' ? 'create' : (options.conditionalWrites ?? 'full');
  const keepBy = options.keepBy ?? (flavour === 'files' ? 'link' : 'copy');
  const storage: Storage & Omit<Capabilities, 'fixModes' | 'localFiles' | 'placeOf'> = {
    renameKind: 'atomic',
    movesDirectories: true,
    label: `memory (${flavour})`,
    facts: {
      conditionalWrites: async () => honored,
      keepsHeaders: flavour === 'objects',
      clockOffsetMs: 0,
    },
    maxBackupBytes: options.maxBackupBytes ?? null,

    async stat(key): Promise<FileStat | undefined> {
      const file = disk.get(key);
      if (file?.target !== undefined) return { type: 'link', size: 0, version: null, modifiedAt: null };
      if (file !== undefined)
        return {
          type: 'file',
          size: file.bytes.length,
          version: flavour === 'objects' ? file.version : null,
          modifiedAt: null,
        };
      const isDirectory = flavour === 'files' && [...disk.keys()].some((name) => name.startsWith(`${key}/`));
      return isDirectory ? { type: 'directory', size: 0, version: null, modifiedAt: null } : undefined;
    },

    async *list(directory, { recursive }): AsyncIterable<Entry> {
      const prefix = directory === '' ? '' : `${directory}/`;
      const directories = new Set<string>();
      for (const [name, file] of [...disk]) {
        if (!name.startsWith(prefix)) continue;
        const slash = name.indexOf('/', prefix.length);
        if (recursive || slash === -1) yield entryOf(name, file);
        else directories.add(name.slice(0, slash));
      }
      for (const name of directories) yield { key: listedKey(name), type: 'directory', size: 0 };
    },

    async *read(key): AsyncIterable<Uint8Array> {
      const file = disk.get(key);
      if (file === undefined) throw notFound(storage, key);
      if (file.bytes.length > 0) yield file.bytes;
    },

    async write(key, body, write): Promise<Written> {
      refuseReadOnly(key);
      refuseCondition(key, write);
      const { bytes, digest } = await readBody(key, body, write);
      // No await from here on: the check and the change are one step.
      const present = disk.get(key);
      if (write.mode === 'create' && present !== undefined) throw alreadyExists(storage, key);
      if (write.ifVersion !== undefined && present?.version !== write.ifVersion)
        throw versionConflict(storage, key);
      refuseTreeConflict(key);
      versions += 1;
      const file = { bytes: Buffer.from(bytes), digest, version: String(versions) };
      disk.set(key, file);
      return {
        size: file.bytes.length,
        digest: file.digest,
        version: flavour === 'objects' ? file.version : null,
      };
    },

    async rename(moves: readonly Move[]): Promise<void> {
      for (const { from, to, aside, isDirectory } of moves) {
        refuseReadOnly(to);
        if (isDirectory === true) {
          moveDirectory(from, to);
          continue;
        }
        const file = disk.get(from);
        if (file === undefined) throw notFound(storage, from);
        refuseTreeConflict(to);
        const replaced = disk.get(to);
        if (aside !== undefined && replaced !== undefined && !disk.has(aside)) disk.set(aside, replaced);
        disk.delete(from);
        disk.set(to, file);
      }
    },

    async obstacleTo({ writes }) {
      const blocked = writes.flatMap((key) => [...ancestorsOf(key)]).find((ancestor) => disk.has(ancestor));
      if (flavour === 'objects' || blocked === undefined) return null;
      return notADirectory(storage, listedKey(blocked), { isLink: false });
    },

    async backUp(key, aside): Promise<BackupFile | null> {
      refuseReadOnly(key);
      const file = disk.get(key);
      if (file === undefined) return null;
      if (file.bytes.length > (options.maxBackupBytes ?? Infinity))
        return { key, aside, method: 'nothing', version: null };
      if (keepBy === 'link' || keepBy === 'copy') disk.set(aside, file);
      return { key, aside, method: keepBy, version: null };
    },

    async restore({ key, aside, method }: BackupFile): Promise<void> {
      refuseReadOnly(key);
      if (method === 'nothing') throw notKept(storage, key);
      const file = disk.get(aside);
      if (file === undefined) {
        if (!disk.has(key)) throw notFound(storage, key);
        return;
      }
      refuseTreeConflict(key);
      versions += 1;
      disk.set(key, method === 'copy' ? { ...file, version: String(versions) } : file);
      if (method !== 'copy') disk.delete(aside);
    },

    async duplicate(from, to): Promise<'link' | 'copy' | null> {
      refuseReadOnly(to);
      const file = disk.get(from);
      disk.delete(to);
      if (file === undefined || file.target !== undefined || options.duplicates === false) return null;
      refuseTreeConflict(to);
      versions += 1;
      disk.set(to, flavour === 'objects' ? { ...file, version: String(versions) } : file);
      return flavour === 'objects' ? 'copy' : 'link';
    },

    readLink: async (key) => disk.get(key)?.target ?? null,

    async replaceLink(key, target): Promise<void> {
      refuseReadOnly(key);
      const present = disk.get(key);
      const isDirectory = [...disk.keys()].some((name) => name.startsWith(`${key}/`));
      if (isDirectory || (present !== undefined && present.target === undefined))
        throw alreadyExists(storage, key);
      refuseTreeConflict(key);
      versions += 1;
      const bytes = Buffer.from(target);
      disk.set(key, { bytes, digest: digestOf(bytes), version: String(versions), target });
    },

    sync: async () => undefined,

    async remove(key, { ifVersion } = {}): Promise<void> {
      refuseReadOnly(key);
      const present = disk.get(key);
      const isOther = present !== undefined && present.version !== ifVersion;
      if (ifVersion !== undefined && honored === 'full' && isOther) throw versionConflict(storage, key);
      disk.delete(key);
    },

    async removeTree(directory): Promise<void> {
      refuseReadOnly(directory);
      for (const name of [...disk.keys()]) if (name.startsWith(joinKey(directory, ''))) disk.delete(name);
    },

    async close(): Promise<void> {
      // Nothing to release: the disk survives the storage.
    },
  };
  if (flavour === 'files') return storage;
  return delegate(storage, {
    renameKind: undefined,
    movesDirectories: undefined,
    rename: undefined,
    sync: undefined,
    readLink: undefined,
    replaceLink: undefined,
  });

  function refuseCondition(key: Key, { mode, ifVersion }: WriteOptions): void {
    if ((mode === 'create' && honored === 'none') || (ifVersion !== undefined && honored !== 'full'))
      throw new WaybillError(
        'storage_permanent',
        `${storage.label}: "${key}": such a condition is not honored`,
      );
  }

  function refuseReadOnly(key: Key): void {
    if (options.readOnly === true) throw readOnly(storage, key);
  }

  function moveDirectory(from: Key, to: Key): void {
    const below = [...disk.keys()].filter((name) => name.startsWith(`${from}/`));
    if (below.length === 0) throw notFound(storage, from);
    for (const name of below) {
      const target = listedKey(to + name.slice(from.length));
      refuseTreeConflict(target);
      disk.set(target, disk.get(name) as MemoryFile);
      disk.delete(name);
    }
  }

  /** A file system cannot have a file and a directory with the same name. */
  function refuseTreeConflict(key: Key): void {
    if (flavour === 'objects') return;
    for (const ancestor of ancestorsOf(key))
      if (disk.has(ancestor))
        throw new WaybillError(
          'storage_permanent',
          `${storage.label}: "${ancestor}" is a file, not a directory`,
        );
    for (const name of disk.keys())
      if (name.startsWith(`${key}/`))
        throw new WaybillError('storage_permanent', `${storage.label}: "${key}" is a directory`);
  }
}
