import { randomUUID } from 'node:crypto';
import { WaybillError } from '../lib/errors.ts';
import { parseRelativePath, type RelativePath, stagingName } from '../lib/paths.ts';

declare const keyBrand: unique symbol;
/** A name within a storage: a relative path, or one of the publisher's own reserved names. */
export type Key = string & { readonly [keyBrand]: true };

/** Every relative path is a key. */
export function keyOf(path: RelativePath): Key {
  return path as string as Key;
}

/** Joins segments that are already keys (or reserved names written in code). */
export function joinKey(directory: Key | '', name: string): Key {
  return (directory === '' ? name : `${directory}/${name}`) as Key;
}

/** A name as a storage reported it. Guarantees only that it comes from a listing of that storage. */
export function listedKey(name: string): Key {
  return name as Key;
}

/** Whether each segment can be a name in a directory. Object keys may have other segments. */
export function hasSegmentsOnly(key: string): boolean {
  return splitAtOddSegment(key) === null;
}

/**
 * Splits a key before its first empty, `.` or `..` segment. null if it has none. The slash between the two
 * parts belongs to neither: `a//b` is `a` and `/b`.
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
 * The staging directory next to a key. The cleanup of abandoned attempts looks there, so it finds the files
 * that a crash leaves.
 */
export function stagingBeside(key: Key): Key {
  return joinKey(parentOf(key), stagingName);
}

/** A new key in the staging directory, for bytes that are moved to `key` once they are complete. */
export function scratchBeside(key: Key): Key {
  return joinKey(stagingBeside(key), `write-${randomUUID()}`);
}
