import path from 'node:path';
import pMap from 'p-map';
import type { Stats } from 'ssh2';
import { WaybillError } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { type Key, listedKey, parentOf } from '../key.ts';
import type { Change } from '../storage.ts';
import { notADirectory, otherFileSystem } from '../storage-errors.ts';
import { deniedChange, hasNoReason, isDenied, noSpace } from './sftp-errors.ts';
import type { SftpRoot } from './sftp-root.ts';

/*
 * Finds out why a change fails, or would fail. Servers rarely say more than "failure" or "denied", so we have
 * to look at the links, permissions, and file systems above the key.
 */

const maxConcurrentRequests = 64;

/**
 * Implements `Storage.obstacleTo`. SFTP offers no way to check permissions in advance. If the server supports
 * `statvfs@openssh.com`, mounts, read-only file systems, and full disks are detected. A disk only counts as
 * full if there is no free space at all, since the file system may use compression.
 */
export async function sftpObstacle(
  root: SftpRoot,
  { writes, removes, from, bytes }: Change,
): Promise<WaybillError | null> {
  const existing = new Set<Key>();
  for (const level of levelsOf(writes)) {
    const found = await pMap(
      level.filter((directory) => parentOf(directory) === '' || existing.has(parentOf(directory) as Key)),
      async (directory) => ({ directory, entry: await root.lstat(directory) }),
      { concurrency: maxConcurrentRequests },
    );
    for (const { directory, entry } of found) {
      if (entry === undefined) continue;
      if (!entry.isDirectory()) return notADirectory(root, directory, { isLink: entry.isSymbolicLink() });
      existing.add(directory);
    }
  }
  const linked = await linkAboveAny(root, removes);
  if (linked !== null) return linked;
  let staging = from;
  while (staging !== '' && !existing.has(staging)) staging = parentOf(staging);
  const home = await fileSystemOf(root, staging);
  if (home === null) return null;
  const below = [...existing].filter((directory) => from === '' || directory.startsWith(`${from}/`));
  const systems = await pMap(below, async (directory) => fileSystemOf(root, directory), {
    concurrency: maxConcurrentRequests,
  });
  if (isReadOnly(home)) return readOnlySystem(root, staging === '' ? root.path : staging);
  for (const [index, system] of systems.entries())
    if (system !== null && String(system.f_sid) !== String(home.f_sid))
      return otherFileSystem(root, below[index] as Key);
  return bytes !== null && bytes > 0 && isExhausted(home) ? noSpace(root.label, staging, null) : null;
}

/**
 * Returns a more specific error for a refused change of `key` if possible, or else `error` unchanged. Servers
 * report only "failure" on a file system that is full or mounted read-only, and a denial does not name the
 * directory that disallows the change. Never throws.
 */
export async function explainFailure(root: SftpRoot, key: Key | '', error: unknown): Promise<unknown> {
  const answer = error instanceof WaybillError ? error.cause : error;
  if (!hasNoReason(answer) && !isDenied(answer)) return error;
  try {
    const { directory, stats } = await directoryAbove(root, root.at(key));
    const system = await statvfs(root, directory);
    if (system !== null && isReadOnly(system)) return readOnlySystem(root, nameOf(root, directory), error);
    if (hasNoReason(answer) && system !== null && hasNoRoom(system, 1))
      return noSpace(root.label, key === '' ? nameOf(root, directory) : key, error);
    // An error about a directory that cannot be created already names its parent.
    if (error instanceof WaybillError || !isDenied(answer)) return error;
    return deniedChange(root.label, { key, directory: nameOf(root, directory), stats }, error);
  } catch {
    return error;
  }
}

/** Returns the absolute path of the nearest parent directory that exists and that we can look at. */
async function directoryAbove(root: SftpRoot, place: string): Promise<{ directory: string; stats: Stats }> {
  for (let directory = path.posix.dirname(place); ; directory = path.posix.dirname(directory)) {
    const stats = await root
      .ask<Stats>((sftp, done) => sftp.stat(directory, done))
      .catch((error: unknown) => {
        if (directory === '/') throw error;
        return undefined;
      });
    if (stats !== undefined) return { directory, stats };
  }
}

/** Formats a directory for messages. Below the root, that is its key, and otherwise its absolute path. */
function nameOf(root: SftpRoot, directory: string): string {
  return directory.startsWith(`${root.path}/`) ? directory.slice(root.path.length + 1) : directory;
}

/** Returns the directories of these keys, grouped by how deep they are, starting at the top. */
function levelsOf(keys: readonly Key[]): Key[][] {
  const levels: Set<Key>[] = [];
  for (const key of keys) {
    let depth = 0;
    for (const ancestor of ancestorsOf(key)) (levels[depth++] ??= new Set()).add(ancestor as Key);
  }
  return levels.map((level) => [...level]);
}

/** Checks the flag `SSH_FXE_STATVFS_ST_RDONLY`. */
function isReadOnly({ f_flag: flags = 0 }: FileSystem): boolean {
  return (Number(flags) & 1) !== 0;
}

function readOnlySystem(root: SftpRoot, directory: string, cause?: unknown): WaybillError {
  return new WaybillError(
    'storage_denied',
    `${root.label}: "${directory}" is on a file system that is mounted read-only`,
    { hint: 'mount it for writing on the server', cause },
  );
}

/**
 * Returns an error if a key's path goes through a symbolic link whose target exists. That target is not below
 * the root, so it must not be deleted. Returns null if there is no link, or if its target does not exist. The
 * result is not cached, because a directory may be replaced by a link at any time.
 */
export async function linkAbove(root: SftpRoot, key: Key): Promise<WaybillError | null> {
  const ancestors = [...ancestorsOf(key)].map(listedKey);
  const found = await Promise.all(ancestors.map(async (ancestor) => root.lstat(ancestor)));
  const link = ancestors.find((_, index) => found[index]?.isSymbolicLink() === true);
  if (link === undefined || (await root.lstat(key)) === undefined) return null;
  return notADirectory(root, link, { isLink: true });
}

/** Returns the first such error for any of these keys. Looks at each directory only once. */
async function linkAboveAny(root: SftpRoot, keys: readonly Key[]): Promise<WaybillError | null> {
  const directories = new Set(keys.flatMap((key) => [...ancestorsOf(key)]));
  const links = new Set<string>();
  await pMap(
    directories,
    async (directory) => {
      if ((await root.lstat(listedKey(directory)))?.isSymbolicLink() === true) links.add(directory);
    },
    { concurrency: maxConcurrentRequests },
  );
  if (links.size === 0) return null;
  for (const key of keys)
    if ([...ancestorsOf(key)].some((directory) => links.has(directory))) {
      const error = await linkAbove(root, key);
      if (error !== null) return error;
    }
  return null;
}

/**
 * Runs a write of `wanted` bytes. If the file system is full, all that servers say is "failure". This checks
 * the free space in that case and throws `storage_full` instead. It looks at the parent directory, because
 * another file system may be mounted below the root. If the server cannot report free space, the original
 * error is thrown.
 */
export async function detectFullDisk<T>(
  root: SftpRoot,
  key: Key,
  wanted: number,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (hasNoReason(error) && (await isFull(root, key, wanted))) throw noSpace(root.label, key, error);
    throw error;
  }
}

/**
 * The fields of statvfs(3) that we need. `f_bavail` is the number of free blocks available to ordinary users.
 */
interface FileSystem {
  f_bfree?: number;
  f_bavail?: number;
  f_frsize?: number;
  f_files?: number;
  f_ffree?: number;
  f_favail?: number;
  /** The id of the file system. It is a bigint if the number is large. */
  f_sid?: number | bigint;
  f_flag?: number | bigint;
}

/** Returns information about a directory's file system, or null if the server does not provide it. */
export async function fileSystemOf(root: SftpRoot, directory: Key | ''): Promise<FileSystem | null> {
  return statvfs(root, root.at(directory));
}

/** Returns true if no user can write any more data there, not even root. */
function isExhausted({ f_bfree: blocks, f_files: files = 0, f_ffree: inodes }: FileSystem): boolean {
  return blocks === 0 || (files > 0 && inodes === 0);
}

async function isFull(root: SftpRoot, key: Key, wanted: number): Promise<boolean> {
  const system = (await statvfs(root, root.at(parentOf(key)))) ?? (await statvfs(root, root.path));
  return system !== null && hasNoRoom(system, Math.max(wanted, 1));
}

/** Returns true if an ordinary user cannot write `bytes` bytes, or no further file. */
function hasNoRoom(system: FileSystem, bytes: number): boolean {
  const { f_bavail: blocks, f_frsize: blockBytes = 1, f_files: files = 0, f_favail: inodes } = system;
  if (blocks === undefined) return false;
  // Some file systems do not count inodes and report 0 free of 0.
  return (files > 0 && inodes === 0) || blocks * blockBytes < bytes;
}

/** Returns information about a path's file system, or null if the server does not provide it. */
async function statvfs(root: SftpRoot, directory: string): Promise<FileSystem | null> {
  return root
    .ask<FileSystem>((sftp, done) => sftp.ext_openssh_statvfs(directory, done as never))
    .catch(() => null);
}
