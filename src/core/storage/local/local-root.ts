import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  fchmodSync,
  lstatSync,
  mkdirSync,
  readlinkSync,
  realpathSync,
  statfsSync,
  type Stats,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { WaybillError } from '../../lib/errors.ts';
import { syncNames } from '../../lib/sync.ts';
import { errnoOf, isAbsent } from '../../lib/system-errors.ts';
import { shellQuoted } from '../../lib/text.ts';
import { type Key, parentOf } from '../key.ts';
import type { Storage } from '../storage.ts';
import { describeSystemError, localFailure } from '../storage-errors.ts';

/*
 * The root of a local storage, which may be in a directory that does not exist yet. The directories in its
 * path are checked and created one by one, so that an error can point out the one that is the problem.
 * Besides, Node.js's recursive `mkdirSync` never returns if the path is below `/proc`.
 */

/** File systems that expose kernel state rather than files, by the `f_type` from statfs(2). */
const kernelViews = new Map([
  [0x9fa0, 'proc'],
  [0x62656572, 'sysfs'],
]);
const maxAttempts = 5;

/** Resolves all links if the root exists. Otherwise, just returns its absolute path. */
export function realPathOrAbsolute(root: string): string {
  try {
    return realpathSync.native(root);
  } catch {
    return path.resolve(root);
  }
}

/**
 * Throws `storage_not_found` if the root does not exist, `storage_denied` if it cannot be inspected, and
 * `storage_permanent` if it is not a directory.
 */
export function requireDirectory(root: string): void {
  let found: Stats;
  try {
    found = statSync(root);
    if (found.isDirectory()) accessSync(root, constants.X_OK);
  } catch (error) {
    if (!isAbsent(error)) throw localFailure(null, root, error);
    const hint = `create it (mkdir -p ${shellQuoted(root)}), or correct the path`;
    throw new WaybillError('storage_not_found', `"${root}" does not exist`, { hint, cause: error });
  }
  if (!found.isDirectory())
    throw new WaybillError('storage_permanent', `"${root}" is not a directory`, {
      hint: 'correct the path, so that it names a directory',
    });
}

/**
 * Throws the error of `createRoot` if it can be predicted without writing anything. Permission to create the
 * root is only checked if `makes` is set.
 */
export function requireCreatableRoot(root: string, { makes }: { makes: boolean }): void {
  const missing = firstMissing(root);
  if (missing === null || !makes) return;
  const parent = path.dirname(missing);
  try {
    accessSync(parent, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw cannotCreateRoot(missing, error);
  }
  if (kernelViewOf(parent) !== null) throw cannotCreateRoot(missing, null);
}

/**
 * Creates the root (an absolute path) and the directories above it, if they do not exist, and flushes their
 * names to disk. All of them get exactly this `mode`, whatever the umask is. Throws `storage_permanent` if
 * there is a file in the way. If a directory cannot be created or a link points nowhere, throws
 * `storage_unavailable`, because it may just be that a disk is not mounted. The message says which directory
 * in the path is the problem.
 */
export function createRoot(root: string, mode: number): void {
  let attempt = 1;
  for (let missing = firstMissing(root); missing !== null; missing = firstMissing(root))
    try {
      mkdirSync(missing, { mode });
      applyMode(missing, mode);
      syncNames(path.dirname(missing));
    } catch (error) {
      // Another process may have created the directory, or deleted its parent.
      const mayBeRace = errnoOf(error) === 'EEXIST' || errnoOf(error) === 'ENOENT';
      if (!mayBeRace || attempt === maxAttempts) throw cannotCreateRoot(missing, error);
      attempt += 1;
    }
}

/**
 * Returns the topmost directory in the path that does not exist, or null if they all do. Throws if there is a
 * problem with one of them.
 */
function firstMissing(root: string): string | null {
  for (const component of componentsOf(root)) {
    if (isDirectory(component)) continue;
    const entry = lstatSync(component, { throwIfNoEntry: false });
    if (entry === undefined) return component;
    // Another process may have created it just after we checked.
    if (entry.isDirectory()) continue;
    const isLink = entry.isSymbolicLink();
    const { what, hint } = isLink ? brokenLinkReason(component) : fileInTheWay;
    const mayBeUnmounted = isLink && !existsSync(component);
    const code = mayBeUnmounted ? 'storage_unavailable' : 'storage_permanent';
    throw new WaybillError(code, `"${component}" ${what}`, { hint });
  }
  return null;
}

/** Returns true if it is a directory, or a link to one. */
function isDirectory(component: string): boolean {
  try {
    return statSync(component).isDirectory();
  } catch (error) {
    if (isAbsent(error) || errnoOf(error) === 'ELOOP') return false;
    throw localFailure(null, component, error);
  }
}

const fileInTheWay = {
  what: 'is not a directory',
  hint: 'correct the path, or move that file away',
};

function brokenLinkReason(component: string): { what: string; hint: string } {
  const what = `is a symbolic link to "${readlinkSync(component)}", which does not lead to a directory`;
  return {
    what,
    hint: 'create or mount that directory, or correct the path',
  };
}

/** `error` is null if we did not even try to create the directory. */
function cannotCreateRoot(missing: string, error: unknown): WaybillError {
  const parent = path.dirname(missing);
  const view = kernelViewOf(parent);
  if (view !== null) {
    const message = `"${missing}" cannot be created: "${parent}" is a kernel file system (${view}), which cannot store files`;
    return new WaybillError('storage_permanent', message, {
      hint: 'correct the path: choose one on a disk',
    });
  }
  const failure = localFailure(null, missing, error);
  const errno = errnoOf(error);
  const hint =
    errno === 'EACCES' || errno === 'EPERM'
      ? `give the user that runs waybill write access to "${parent}", or create "${missing}" for that user`
      : (failure.hint ?? 'correct the path');
  const code = failure.retryable ? failure.code : 'storage_unavailable';
  const message = `"${missing}" cannot be created: ${describeSystemError(error)}`;
  return new WaybillError(code, message, { hint, cause: error });
}

function kernelViewOf(directory: string): string | null {
  try {
    return kernelViews.get(statfsSync(directory).type) ?? null;
  } catch {
    return null;
  }
}

/** Returns `/a` and `/a/b` for `/a/b`. */
function componentsOf(absolute: string): string[] {
  const components: string[] = [];
  for (let each = absolute; path.dirname(each) !== each; each = path.dirname(each)) components.push(each);
  return components.reverse();
}

/**
 * The errors of file systems that do not have modes (FAT, CIFS, and some based on FUSE), and those for files
 * that belong to other users.
 */
const modeRefusals = new Set(['EPERM', 'EACCES', 'EROFS', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL']);

/**
 * Sets exactly this mode. When a file is created, the umask and access lists may have removed permissions.
 * `target` is an open file, or a path that cannot be replaced by another user. The setgid and sticky bits of
 * a directory are kept. Returns false if the file system or the ownership of the file does not allow it.
 */
export function applyMode(target: string | number, mode: number): boolean {
  try {
    if (typeof target === 'number') fchmodSync(target, mode);
    else {
      const before = statSync(target);
      const wanted = before.isDirectory() ? mode | (before.mode & 0o3000) : mode;
      if ((before.mode & 0o7777) !== wanted) chmodSync(target, wanted);
    }
    return true;
  } catch (error) {
    if (modeRefusals.has(errnoOf(error) ?? '')) return false;
    throw error;
  }
}

/** Creates the error for a directory below the root that cannot be created. The hint is about its parent. */
export function cannotCreateDirectory(
  storage: Pick<Storage, 'label'>,
  directory: Key,
  error: unknown,
): WaybillError {
  const { code, hint } = localFailure(storage, directory, error);
  const parent = parentOf(directory);
  const where = `"${parent === '' ? storage.label : parent}"`;
  const isDenied = code === 'storage_denied' && errnoOf(error) !== 'EROFS';
  return new WaybillError(
    code,
    `${storage.label}: the directory "${directory}" cannot be created: ${describeSystemError(error)}`,
    { cause: error, hint: isDenied ? `give the user that runs waybill write access to ${where}` : hint },
  );
}
