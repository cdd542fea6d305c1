import { isReservedPath, stateName, compareCodeUnits } from '../lib/paths.ts';
import { WaybillError } from '../lib/errors.ts';
import { hasSegmentsOnly, nameOf, parentOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

/*
 * Finds the managed bundle paths of a destination. A path is managed if it has a catalog.
 */

/**
 * The content of a destination, from one recursive listing. Object stores list a thousand names per request.
 */
export interface Survey {
  /** Every managed bundle path, '' for the root; parents before children. */
  paths: (Key | '')[];
  /**
   * The files of each managed bundle path, as keys relative to it. Excludes the publisher's own files and the
   * files of managed bundle paths below it.
   */
  files: Map<Key | '', Set<string>>;
  /** Keys of the files outside all managed bundle paths, sorted. Excludes the publisher's own files. */
  strays: Key[];
}

/** Throws the storage's error if it cannot be listed. */
export async function surveyDestination(storage: Storage): Promise<Survey> {
  const paths: (Key | '')[] = [];
  const keys: Key[] = [];
  for await (const { key, type } of storage.list('', { recursive: true })) {
    if (!isReservedPath(key)) keys.push(key);
    else if (type === 'file' && nameOf(key) === stateName && isInBundlePath(key)) paths.push(parentOf(key));
  }
  paths.sort(compareCodeUnits);
  const files = new Map<Key | '', Set<string>>(paths.map((path) => [path, new Set()]));
  const strays: Key[] = [];
  for (const key of keys) {
    const path = managedAbove(key, files);
    if (path === null) strays.push(key);
    else files.get(path)?.add(path === '' ? key : key.slice(path.length + 1));
  }
  return { paths, files, strays: strays.sort(compareCodeUnits) };
}

/** Whether the directory of a catalog or lock with this key can be a bundle path. Pure. */
export function isInBundlePath(key: Key): boolean {
  return hasSegmentsOnly(key) && !isReservedPath(parentOf(key));
}

/** The deepest managed bundle path above this key; null if there is none. */
function managedAbove(key: Key, managed: ReadonlyMap<Key | '', unknown>): Key | '' | null {
  for (let above = parentOf(key); above !== ''; above = parentOf(above)) if (managed.has(above)) return above;
  return managed.has('') ? '' : null;
}

/** The managed bundle paths of a destination, '' for the root; parents before children. */
export async function managedPaths(storage: Storage): Promise<(Key | '')[]> {
  return (await surveyDestination(storage)).paths;
}

/** Like `managedPaths`; throws `bundle_not_found` if there is none. */
export async function requireManagedPaths(storage: Storage): Promise<(Key | '')[]> {
  return (await requireManagedSurvey(storage)).paths;
}

/** Like `surveyDestination`; throws `bundle_not_found` if there is no managed bundle path. */
export async function requireManagedSurvey(storage: Storage): Promise<Survey> {
  const survey = await surveyDestination(storage);
  if (survey.paths.length > 0) return survey;
  throw new WaybillError(
    'bundle_not_found',
    `the destination holds no ${stateName}: nothing was published to it yet`,
    {
      hint: 'publish first, or check the path of the destination',
    },
  );
}

/** The bundle path in reports: `.` for the root. */
export function reportedPath(path: Key | ''): string {
  return path === '' ? '.' : path;
}
