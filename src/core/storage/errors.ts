import { WaybillError } from '../lib/errors.ts';
import type { Key } from './key.ts';
import type { Storage } from './storage.ts';

/** The errors that several drivers report in the same words. */

type Labelled = Pick<Storage, 'label'>;

export function notFound(storage: Labelled, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_not_found', `${storage.label}: "${key}" is not there`, { cause });
}

export function alreadyExists(storage: Labelled, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_exists', `${storage.label}: "${key}" exists already`, { cause });
}

export function versionConflict(storage: Labelled, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_conflict', `${storage.label}: "${key}" was changed by someone else`, {
    cause,
  });
}

export function readOnly(storage: Labelled, key: string): WaybillError {
  return new WaybillError(
    'storage_denied',
    `${storage.label}: was opened read-only, so "${key}" cannot be changed`,
  );
}

/** `storage_permanent`: a file is to be put back that could not be kept. */
export function notKept(storage: Labelled, key: string): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: "${key}" was not kept, so it cannot be put back`,
  );
}

/** `storage_permanent`: symbolic links are to be replaced in one step where that is not possible. */
export function noLinks(storage: Labelled, cause?: unknown): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: symbolic links cannot be replaced there in one step`,
    { hint: 'releases need that: set layout: in_place for this destination', cause },
  );
}

/** `storage_permanent`: a key needs a directory where a file or a symbolic link is. */
export function notADirectory(
  storage: Labelled,
  directory: Key | '',
  { isLink }: { isLink: boolean },
): WaybillError {
  const what = directory === '' ? 'the root' : `"${directory}"`;
  return new WaybillError('storage_permanent', `${storage.label}: ${what} is not a directory`, {
    hint: isLink
      ? 'it is a symbolic link, which waybill does not follow below a root; replace it with a directory, or configure its target as a path'
      : 'move it away, or publish to another path',
  });
}

/** `storage_permanent`: a file cannot be moved to a key in one step. */
export function otherFileSystem(storage: Labelled, key: string): WaybillError {
  return new WaybillError('storage_permanent', `${storage.label}: "${key}" is on another file system`, {
    hint: 'something is mounted there, and files cannot be moved to it in one step; unmount it, or make it a destination of its own',
  });
}

/** `storage_full`: more `bytes` or `files` are to be written than there is room for. */
export function noRoom(
  storage: Labelled,
  need: ({ bytes: number } | { files: number }) & { free: number },
): WaybillError {
  const what = 'bytes' in need ? `${need.bytes} bytes` : `${need.files} files`;
  return new WaybillError(
    'storage_full',
    `${storage.label}: ${what} are to be written, and there is room for ${need.free}`,
    { hint: 'free some space and run again; nothing was changed' },
  );
}

/** `storage_permanent`: an object key is longer than S3 allows. */
export function keyTooLong(storage: Labelled, key: string, mostBytes: number): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: "${key}" is too long: with the prefix it has more than ${mostBytes} bytes`,
    { hint: 'give the file a shorter path, or the destination a shorter prefix' },
  );
}
