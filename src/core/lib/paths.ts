import { foldedPath, printableAscii } from './text.ts';

/**
 * Defines which relative paths a bundle may contain. Manifests, archives and bundle names share one policy,
 * so that an accepted path is safe on every backend and every common file system.
 */
declare const relativePathBrand: unique symbol;
/** A path accepted by `parseRelativePath`: relative, POSIX, NFC, with safe segments. */
export type RelativePath = string & { readonly [relativePathBrand]: true };

export const maxSegmentBytes = 255;
export const maxPathBytes = 1024;
// C0, DEL and C1 controls, and the line and paragraph separators at which terminals and logs would break.
const controlCharacters = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/u;

type PathVerdict = { ok: true; path: RelativePath } | { ok: false; reason: string };

/**
 * Matches printable ASCII without quotation marks and backslashes, in segments that do not begin with a dot.
 */
const plainPath =
  /^[\x20\x21\x23-\x2d\x30-\x5b\x5d-\x7e][\x20\x21\x23-\x2e\x30-\x5b\x5d-\x7e]*(?:\/[\x20\x21\x23-\x2d\x30-\x5b\x5d-\x7e][\x20\x21\x23-\x2e\x30-\x5b\x5d-\x7e]*)*$/;

/**
 * Returns true if a path consists only of harmless characters, as nearly all do. Such a path needs no escapes
 * in JSON. This is faster than `parseRelativePath`, which checks all other paths.
 */
export function isPlainPath(text: string): text is RelativePath {
  return text.length <= maxSegmentBytes && plainPath.test(text);
}

/** Checks a single path. */
export function parseRelativePath(text: string): PathVerdict {
  if (isPlainPath(text)) return { ok: true, path: text };
  if (text === '') return refuse('is empty');
  if (!text.isWellFormed()) return refuse('is not well-formed Unicode');
  if (text.startsWith('/')) return refuse('is absolute; paths are relative to the bundle');
  if (text.includes('\\')) return refuse('holds a backslash; separate segments by "/"');
  const isPlain = printableAscii.test(text);
  if (!isPlain && controlCharacters.test(text)) return refuse('holds a control character');
  if (!isPlain && text.normalize('NFC') !== text) return refuse('is not in Unicode normalization form C');
  if ((isPlain ? text.length : Buffer.byteLength(text)) > maxPathBytes)
    return refuse(`is longer than ${maxPathBytes} bytes`);
  for (const segment of text.split('/')) {
    if (segment === '') return refuse('has an empty segment');
    if (segment === '.' || segment === '..') return refuse(`has the segment "${segment}"`);
    if ((isPlain ? segment.length : Buffer.byteLength(segment)) > maxSegmentBytes)
      return refuse(`has a segment longer than ${maxSegmentBytes} bytes`);
    if (isReservedSegment(segment))
      return refuse(`has a segment that begins with "${reservedPrefix}", which is reserved`);
  }
  return { ok: true, path: text as RelativePath };
}

function refuse(reason: string): PathVerdict {
  return { ok: false, reason };
}

interface PathCollision {
  index: number;
  reason: string;
}

/**
 * Checks paths against each other: each must be unique after case folding, and no file may be the directory
 * of another. Returns one finding for each path that collides with an earlier one, with its index. Takes time
 * linear in the total length of the paths.
 */
export function findCollisions(paths: readonly RelativePath[]): PathCollision[] {
  if (areApart(paths)) return [];
  const files = new Map<string, string>();
  const collisions: PathCollision[] = [];
  const folded = paths.map(foldedPath);
  folded.forEach((key, index) => {
    const path = paths[index] as RelativePath;
    const earlier = files.get(key);
    if (earlier === undefined) files.set(key, path);
    else
      collisions.push({
        index,
        reason: earlier === path ? 'is listed twice' : `differs from "${earlier}" only in letter case`,
      });
  });
  folded.forEach((key, index) => {
    for (const ancestor of ancestorsOf(key)) {
      const file = files.get(ancestor);
      if (file === undefined) continue;
      collisions.push({ index, reason: `lies below "${file}", which is listed as a file` });
      break;
    }
  });
  return collisions;
}

/**
 * Returns true if `findCollisions` would find nothing, using a third of its time and memory. Fastest if paths
 * in the same directory are adjacent.
 */
export function areApart(paths: readonly string[]): boolean {
  const files = new Set<string>();
  for (const path of paths) files.add(foldedPath(path));
  if (files.size < paths.length) return false;
  let directory = '';
  for (const file of files) {
    const slash = file.lastIndexOf('/');
    if (slash === -1 || (slash === directory.length && file.startsWith(directory))) continue;
    directory = file.slice(0, slash);
    if (files.has(directory)) return false;
    for (const ancestor of ancestorsOf(directory)) if (files.has(ancestor)) return false;
  }
  return true;
}

/**
 * Yields the parent directories of a relative path, outermost first: `a/b/c` yields `a`, then `a/b`. Yields
 * neither the path itself nor the root, so a path with one segment yields nothing. Evaluated lazily, so a
 * caller that stops early saves the rest.
 */
export function* ancestorsOf(path: string): Generator<string, void, undefined> {
  for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1))
    yield path.slice(0, slash);
}

/**
 * Compares by ascending UTF-16 code units, which is the only path order in this project (JavaScript's own
 * `<`, never `localeCompare`).
 */
export function compareCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Names with this prefix belong to the publisher: state, lock and staging. They are never outputs and never
 * "content".
 */
export const reservedPrefix = '.publisher';

/** The catalog at a destination bundle path. */
export const stateName = '.publisher.json';
/** The catalog's lock, on storages that can create a file exclusively. */
export const lockName = '.publisher.lock';
/** The directory next to the catalog in which an attempt stages its outputs. */
export const stagingName = '.publisher.tmp';

/**
 * Returns true if a path segment is reserved. Case is ignored, because `.PUBLISHER.json` is the state on a
 * case-insensitive file system.
 */
export function isReservedSegment(segment: string): boolean {
  return foldedPath(segment).startsWith(reservedPrefix);
}

/** Returns true if any segment of the path is reserved. */
export function isReservedPath(path: string): boolean {
  return path.split('/').some(isReservedSegment);
}

/*
 * Bundle paths as written by people and in configurations: relative to the destination root, with `.` for the
 * root itself.
 */

/** Describes a bundle path for a message. */
export function describeBundlePath(destinationPath: string): string {
  return destinationPath === '.' ? 'the destination root' : `"${destinationPath}"`;
}

/** Returns a path within a bundle path, relative to the destination root. */
export function pathWithin(destinationPath: string, within: string): string {
  return destinationPath === '.' ? within : `${destinationPath}/${within}`;
}

/**
 * The format of a channel name. It is like a host name label (RFC 1123), because servers use it as one. Names
 * of other entries next to the releases are excluded.
 */
export const channelForm = /^(?!(?:current|releases)$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export function isChannelName(text: string): boolean {
  return channelForm.test(text);
}
