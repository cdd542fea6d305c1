import { randomUUID } from 'node:crypto';
import { WaybillError } from '../lib/errors.ts';
import { parseRelativePath, type RelativePath, stagingName } from '../lib/paths.ts';

declare const keyBrand: unique symbol;
/** A name within a storage: a relative path, or one of the publisher's own reserved names. */
export type Key = string & { readonly [keyBrand]: true };

/** Converts a relative path to a key. Every relative path is a valid key. */
export function keyOf(path: RelativePath): Key {
  return path as string as Key;
}

/** Joins segments that are already keys (or reserved names written in code). */
export function joinKey(directory: Key | '', name: string): Key {
  return (directory === '' ? name : `${directory}/${name}`) as Key;
}

/**
 * Converts a name reported by a storage to a key. This guarantees only that the name comes from a listing.
 */
export function listedKey(name: string): Key {
  return name as Key;
}

/** Returns true if each segment can be the name of a directory entry. Object keys may have other segments. */
export function hasSegmentsOnly(key: string): boolean {
  return splitAtOddSegment(key) === null;
}

/**
 * Splits a key before its first empty, `.` or `..` segment. Returns null if it has none. The slash between
 * the two parts belongs to neither: `a//b` becomes `a` and `/b`.
 */
export function splitAtOddSegment(key: string): { directory: Key | ''; rest: string } | null {
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

/** Parses a destination bundle path; `.` is the root. */
export function parseBundlePath(text: string): Key | '' {
  if (text === '.' || text === '') return '';
  const verdict = parseRelativePath(text);
  if (!verdict.ok) throw new WaybillError('invalid_bundle', `bundle path "${text}" ${verdict.reason}`);
  return keyOf(verdict.path);
}

/**
 * Returns the staging directory next to a key. The cleanup of abandoned attempts searches it for files left
 * behind by a crash.
 */
export function stagingBeside(key: Key): Key {
  return joinKey(parentOf(key), stagingName);
}

/** Returns a new key in the staging directory for bytes that are moved to `key` once complete. */
export function scratchBeside(key: Key): Key {
  return joinKey(stagingBeside(key), `write-${randomUUID()}`);
}
