import { randomUUID } from 'node:crypto';
import { WaybillError } from '../lib/errors.ts';
import { parseRelativePath, type RelativePath, stagingName } from '../lib/paths.ts';

declare const keyBrand: unique symbol;
/**
 * The name of a file in a storage. It is either a relative path, or one of the names that are reserved for
 * waybill.
 */
export type Key = string & { readonly [keyBrand]: true };

/** Converts a relative path to a key, which always works. */
export function keyOf(path: RelativePath): Key {
  return path as string as Key;
}

/** Joins a key and a name. Both must already be valid, or be reserved names from the code. */
export function joinKey(directory: Key | '', name: string): Key {
  return (directory === '' ? name : `${directory}/${name}`) as Key;
}

/** Treats a name from a listing as a key. It has not been checked in any way. */
export function listedKey(name: string): Key {
  return name as Key;
}

/** Returns true if all segments are valid names for directory entries. In object keys, they may not be. */
export function hasValidSegments(key: string): boolean {
  return splitAtInvalidSegment(key) === null;
}

/**
 * Splits a key before the first segment that is empty, `.`, or `..`. The slash between the two parts is
 * dropped, so `a//b` becomes `a` and `/b`. Returns null if there is no such segment.
 */
export function splitAtInvalidSegment(key: string): { directory: Key | ''; rest: string } | null {
  let start = 0;
  for (const segment of key.split('/')) {
    if (segment === '' || segment === '.' || segment === '..')
      return { directory: key.slice(0, Math.max(0, start - 1)) as Key | '', rest: key.slice(start) };
    start += segment.length + 1;
  }
  return null;
}

export function parentOf(key: Key): Key | '' {
  const slash = key.lastIndexOf('/');
  return slash === -1 ? '' : (key.slice(0, slash) as Key);
}

export function nameOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Parses the path of a bundle at a destination, where `.` means the root. */
export function parseBundlePath(text: string): Key | '' {
  if (text === '.' || text === '') return '';
  const verdict = parseRelativePath(text);
  if (!verdict.ok) throw new WaybillError('invalid_bundle', `bundle path "${text}" ${verdict.reason}`);
  return keyOf(verdict.path);
}

/**
 * Returns the staging directory for a key, which is in the same directory. If files are left behind there
 * after a crash, the cleanup of abandoned attempts finds them.
 */
export function siblingStaging(key: Key): Key {
  return joinKey(parentOf(key), stagingName);
}

/**
 * Returns an unused key in the staging directory. Bytes are written there first, and moved to `key` when
 * complete.
 */
export function siblingScratch(key: Key): Key {
  return joinKey(siblingStaging(key), `write-${randomUUID()}`);
}
