import { parentOf, type Key } from '../key.ts';
import { isUnexplained, noSpace } from './errors.ts';
import type { SftpRoot } from './root.ts';

/**
 * Runs a write of `wanted` bytes, and throws `storage_full` instead of its failure if the file system is
 * full, which servers only report as "failure". The free space of the parent directory is checked, because a
 * separate file system may be mounted below the root. If the server cannot report it, the original failure is
 * thrown.
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
    if (isUnexplained(error) && (await isFull(root, key, wanted))) throw noSpace(root.label, key, error);
    throw error;
  }
}

/** The fields of statvfs(3) used here; `avail` is what ordinary users may use of what is free. */
export interface FileSystem {
  f_bfree?: number;
  f_bavail?: number;
  f_frsize?: number;
  f_files?: number;
  f_ffree?: number;
  f_favail?: number;
  /** Identifies the file system; a bigint if it is large. */
  f_sid?: number | bigint;
  f_flag?: number | bigint;
}

/** The file system of a directory; null if the server does not say. */
export async function fileSystemOf(root: SftpRoot, directory: Key | ''): Promise<FileSystem | null> {
  return statvfs(root, root.at(directory));
}

/** Whether nobody can write anything more there. */
export function isExhausted({ f_bfree: blocks, f_files: files = 0, f_ffree: inodes }: FileSystem): boolean {
  return blocks === 0 || (files > 0 && inodes === 0);
}

async function isFull(root: SftpRoot, key: Key, wanted: number): Promise<boolean> {
  const free = (await statvfs(root, root.at(parentOf(key)))) ?? (await statvfs(root, root.path));
  if (free?.f_bavail === undefined) return false;
  // Some file systems do not count inodes and report 0 of 0.
  if (free.f_files !== undefined && free.f_files > 0 && free.f_favail === 0) return true;
  return free.f_bavail * (free.f_frsize ?? 1) < Math.max(wanted, 1);
}

/** The file system of an absolute path; null if the server does not say. */
export async function statvfs(root: SftpRoot, directory: string): Promise<FileSystem | null> {
  return root
    .ask<FileSystem>((sftp, done) => sftp.ext_openssh_statvfs(directory, done as never))
    .catch(() => null);
}
