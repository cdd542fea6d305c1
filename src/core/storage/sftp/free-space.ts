import { parentOf, type Key } from '../key.ts';
import { answerOf, generalFailure, noSpace } from './errors.ts';
import type { SftpPlace } from './root.ts';

/**
 * Runs a write, and tells a failure that is due to a full file system as such: a server answers one only with
 * "failed". It is asked how much room the directory has, which a file system of its own below the root may
 * differ in; without an answer, the failure stays what it was.
 */
export async function toldIfFull<T>(
  place: SftpPlace,
  key: Key,
  wanted: number,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (answerOf(error) === generalFailure && (await isFull(place, key, wanted)))
      throw noSpace(place.label, key, error);
    throw error;
  }
}

/**
 * What the server's answer holds of statvfs(3): free blocks and inodes for who is not root, the size of a
 * block.
 */
interface Room {
  f_bavail?: number;
  f_frsize?: number;
  f_files?: number;
  f_favail?: number;
}

async function isFull(place: SftpPlace, key: Key, wanted: number): Promise<boolean> {
  const room = (await roomOf(place, place.at(parentOf(key)))) ?? (await roomOf(place, place.root));
  if (room?.f_bavail === undefined) return false;
  // Some file systems count no inodes and say that there are none.
  if (room.f_files !== undefined && room.f_files > 0 && room.f_favail === 0) return true;
  return room.f_bavail * (room.f_frsize ?? 1) < Math.max(wanted, 1);
}

async function roomOf(place: SftpPlace, directory: string): Promise<Room | null> {
  return place
    .ask<Room>((sftp, done) => sftp.ext_openssh_statvfs(directory, done as never))
    .catch(() => null);
}
