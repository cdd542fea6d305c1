import { foldedPath, printableAscii } from './text.ts';

/**
 * Decides which paths may be in a bundle. The rules are the same for manifests, archives and the names of
 * bundles. A path that passes is safe to use on every backend and every common file system.
 */
declare const relativePathBrand: unique symbol;
/** A relative POSIX path that passed `parseRelativePath`. It is in NFC, and all of its segments are safe. */
export type RelativePath = string & { readonly [relativePathBrand]: true };

export const maxSegmentBytes = 255;
export const maxPathBytes = 1024;
// Control characters (C0, DEL and C1), and the line and paragraph separators, which would break a line in a
// terminal or log.
const controlCharacters = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/u;

type PathVerdict = { ok: true; path: RelativePath } | { ok: false; reason: string };

/** Matches printable ASCII without quotation marks and backslashes. No segment may begin with a dot. */
const plainPath =
  /^[\x20\x21\x23-\x2d\x30-\x5b\x5d-\x7e][\x20\x21\x23-\x2e\x30-\x5b\x5d-\x7e]*(?:\/[\x20\x21\x23-\x2d\x30-\x5b\x5d-\x7e][\x20\x21\x23-\x2e\x30-\x5b\x5d-\x7e]*)*$/;

/**
 * Reports whether a path has nothing but harmless characters. Nearly every path does, and does not need to be
 * escaped in JSON. This is faster than `parseRelativePath`, which checks all other paths.
 */
export function isPlainPath(text: string): text is RelativePath {
  return text.length <= maxSegmentBytes && plainPath.test(text);
}

/** Checks one path on its own. */
export function parseRelativePath(text: string): PathVerdict {
  if (isPlainPath(text)) return { ok: true, path: text };
  if (text === '') return refuse('is empty');
  if (!text.isWellFormed()) return refuse('is not well-formed Unicode');
  if (text.startsWith('/')) return refuse('is absolute; paths are relative to the bundle');
  if (text.includes('\\')) return refuse('holds a backslash; separate segments by "/"');
  const isPlain = printableAscii.test(text);
  if (!isPlain && controlCharacters.test(text)) return refuse('holds a control character');
  if (!isPlain && text.normalize('NFC') !== text)
    return refuse('writes accents as separate characters (it is not in Unicode normalization form C)');
  if ((isPlain ? text.length : Buffer.byteLength(text)) > maxPathBytes)
    return refuse(`is longer than ${maxPathBytes} bytes`);
  for (const segment of text.split('/')) {
    if (segment === '') return refuse('has an empty segment');
    if (segment === '..') return refuse('has the segment "..", which leads out of the directory');
    if (segment === '.') return refuse('has the segment "."');
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
 * Checks whether paths get in each other's way: no two may be the same when case is ignored, and none may be
 * a file if another needs it as a directory. Returns a finding, with an index, for each path that collides
 * with an earlier one. The time it takes is proportional to the total length of all paths.
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
 * Reports whether `findCollisions` would find nothing, with a third of the time and memory. It is fastest if
 * files in the same directory are next to each other.
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
 * Yields the parent directories of a relative path, from the top down: `a` and `a/b` for `a/b/c`. The path
 * itself and the root are not included, so a path with just one segment has none. Callers can stop early if
 * they do not need all of them.
 */
export function* ancestorsOf(path: string): Generator<string, void, undefined> {
  for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1))
    yield path.slice(0, slash);
}

/**
 * Compares two strings by their UTF-16 code units, as `<` does. Paths in this project are always sorted like
 * this, and never with `localeCompare`.
 */
export function compareCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * All names that start with this belong to the publisher: state, lock and staging. They are never outputs and
 * do not count as content.
 */
export const reservedPrefix = '.publisher';

/** The catalog of a bundle path. */
export const stateName = '.publisher.json';
/** The lock next to the catalog, on storage where only one process can create a file. */
export const lockName = '.publisher.lock';
/** The directory next to the catalog where attempts stage their outputs. */
export const stagingName = '.publisher.tmp';

/**
 * Reports whether a path segment is reserved. Case makes no difference, because on some file systems
 * `.PUBLISHER.json` is the state.
 */
export function isReservedSegment(segment: string): boolean {
  return foldedPath(segment).startsWith(reservedPrefix);
}

/** Reports whether any segment of the path is reserved. */
export function isReservedPath(path: string): boolean {
  return path.split('/').some(isReservedSegment);
}

/*
 * Formats bundle paths for users. They are relative to the destination root, and `.` is the root itself.
 */

export function describeBundlePath(destinationPath: string): string {
  return destinationPath === '.' ? 'the destination root' : `"${destinationPath}"`;
}

/** Returns the path of something inside a bundle path, relative to the destination root. */
export function pathWithin(destinationPath: string, within: string): string {
  return destinationPath === '.' ? within : `${destinationPath}/${within}`;
}

/**
 * A valid channel name. Servers may use it as part of a host name, so it has the form of a host name label
 * (RFC 1123). `current` and `releases` are not allowed, because the layout uses these names itself.
 */
export const channelForm = /^(?!(?:current|releases)$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export function isChannelName(text: string): boolean {
  return channelForm.test(text);
}
