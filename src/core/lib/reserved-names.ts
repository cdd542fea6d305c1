import { foldedPath } from './case-folding.ts';

/**
 * Names that begin with this belong to the publisher: state, lock, staging. They are never outputs and never
 * "content".
 */
export const reservedPrefix = '.publisher';

/** The catalog at a destination bundle path. */
export const stateName = '.publisher.json';
/** The lock that guards the catalog where the storage can create a file only if it is absent. */
export const lockName = '.publisher.lock';
/** The directory, beside the catalog, where an attempt stages its outputs. */
export const stagingName = '.publisher.tmp';

/**
 * Whether a segment of a path is reserved. Case is ignored: `.PUBLISHER.json` is the state where the file
 * system folds case.
 */
export function isReservedSegment(segment: string): boolean {
  return foldedPath(segment).startsWith(reservedPrefix);
}

/** Whether any segment of the path is reserved. */
export function isReservedPath(path: string): boolean {
  return path.split('/').some(isReservedSegment);
}
