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
import { describeSystemError, localFailure } from '../errors.ts';
import { type Key, parentOf } from '../key.ts';
import type { Storage } from '../storage.ts';

/*
 * The root of a local storage, which may be below directories that do not exist yet. Its components are
 * checked and created one by one, so that an error can name the first one at fault. Also, Node.js's recursive
 * `mkdirSync` never returns below `/proc`.
 */

/** File systems that expose kernel state instead of files, by the `f_type` of statfs(2). */
const kernelViews = new Map([
  [0x9fa0, 'proc'],
  [0x62656572, 'sysfs'],
]);
const maxAttempts = 5;

/** Returns the root with its links resolved if it exists, or else its absolute path. */
export function realOrResolved(root: string): string {
  try {
    return realpathSync.native(root);
  } catch {
    return path.resolve(root);
  }
}

/**
 * Throws `storage_not_found` if the root is missing, `storage_denied` if it cannot be inspected and
 * `storage_permanent` if it is not a directory.
 */
export function requireDirectory(storage: Pick<Storage, 'label'>, root: string): void {
  let found: Stats;
  try {
    found = statSync(root);
  } catch (error) {
    if (!isAbsent(error)) throw localFailure(storage, root, error);
    const what = `${storage.label}: "${root}" does not exist`;
    const hint = `create it (mkdir -p ${root}), or correct the path`;
    throw new WaybillError('storage_not_found', what, { hint, cause: error });
  }
  if (!found.isDirectory())
    throw new WaybillError('storage_permanent', `${storage.label}: "${root}" is not a directory`, {
      hint: 'correct the path, or move that file away',
    });
}

/**
 * Throws the error of `makeRoot` if it can be predicted without writing. Checks permission to create a
 * missing root only if `makes` is set.
 */
export function requireMakeableRoot(
  storage: Pick<Storage, 'label'>,
  root: string,
  { makes }: { makes: boolean },
): void {
  const missing = firstMissing(storage, root);
  if (missing === null || !makes) return;
  const parent = path.dirname(missing);
  try {
    accessSync(parent, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw cannotMake(storage, missing, error);
  }
  if (kernelViewOf(parent) !== null) throw cannotMake(storage, missing, null);
}

/**
 * Creates the root, an absolute path, and its missing parents, each with `mode` regardless of the umask, and
 * makes their names durable. Throws `storage_permanent` if a file or a dangling link is in the way. Throws
 * `storage_denied`, or the code for the system error, if a directory cannot be created. The message names the
 * first component at fault.
 *
 * Errors for a missing root that cannot be created and for a dangling link are `retryable`, because the disk
 * may be unmounted.
 */
export function makeRoot(storage: Pick<Storage, 'label'>, root: string, mode: number): void {
  let attempt = 1;
  for (let missing = firstMissing(storage, root); missing !== null; missing = firstMissing(storage, root))
    try {
      mkdirSync(missing, { mode });
      applyMode(missing, mode);
      syncNames(path.dirname(missing));
    } catch (error) {
      // Another process may have created it or removed its parent in the meantime.
      const mayBeRace = errnoOf(error) === 'EEXIST' || errnoOf(error) === 'ENOENT';
      if (!mayBeRace || attempt === maxAttempts) throw cannotMake(storage, missing, error);
      attempt += 1;
    }
}

/**
 * Returns the topmost component that does not exist, or null if all exist. Throws if a component is at fault.
 */
function firstMissing(storage: Pick<Storage, 'label'>, root: string): string | null {
  for (const component of componentsOf(root)) {
    if (isDirectory(storage, component)) continue;
    const entry = lstatSync(component, { throwIfNoEntry: false });
    if (entry === undefined) return component;
    // Another process may have created it since the check.
    if (entry.isDirectory()) continue;
    const isLink = entry.isSymbolicLink();
    const { what, hint } = isLink ? faultOfLink(component) : fileInTheWay;
    const message = `${storage.label}: "${component}" ${what}`;
    throw new WaybillError('storage_permanent', message, {
      hint,
      retryable: isLink && !existsSync(component),
    });
  }
  return null;
}

/** Returns true if the component is a directory or a link to one. */
function isDirectory(storage: Pick<Storage, 'label'>, component: string): boolean {
  try {
    return statSync(component).isDirectory();
  } catch (error) {
    if (isAbsent(error) || errnoOf(error) === 'ELOOP') return false;
    throw localFailure(storage, component, error);
  }
}

const fileInTheWay = {
  what: 'is not a directory',
  hint: 'correct the path, or move that file away',
};

function faultOfLink(component: string): { what: string; hint: string } {
  const what = `is a symbolic link to "${readlinkSync(component)}", which is not a directory`;
  return {
    what,
    hint: 'create or mount that directory, or correct the path',
  };
}

/** `error` is null if the creation was not attempted. */
function cannotMake(storage: Pick<Storage, 'label'>, missing: string, error: unknown): WaybillError {
  const parent = path.dirname(missing);
  const view = kernelViewOf(parent);
  if (view !== null) {
    const message = `${storage.label}: "${missing}" cannot be created: "${parent}" is a kernel file system (${view}), which cannot store files`;
    return new WaybillError('storage_permanent', message, {
      hint: 'correct the path, so that it is on a disk',
    });
  }
  const failure = localFailure(storage, missing, error);
  const errno = errnoOf(error);
  const hint =
    errno === 'EACCES' || errno === 'EPERM'
      ? `give the user that runs waybill write access to "${parent}", or create "${missing}" for that user`
      : (failure.hint ?? 'correct the path');
  // The missing entry is not an output of a publication, so its code must not be `storage_not_found`.
  const code = failure.code === 'storage_not_found' ? 'storage_permanent' : failure.code;
  const message = `${storage.label}: "${missing}" cannot be created: ${errno ?? String(error)}`;
  return new WaybillError(code, message, { hint, cause: error, retryable: true });
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
 * Errors reported by FAT, CIFS and some FUSE file systems, which have no modes, and for other users' files.
 */
const modeRefusals = new Set(['EPERM', 'EACCES', 'EROFS', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL']);

/**
 * Sets exactly this mode, because the umask and access lists may have removed permissions at creation.
 * `target` is an open file, or a path that another user cannot replace. A directory keeps its setgid and
 * sticky bits. Returns false if the file system or the owner does not allow it.
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

/** Returns the error for a directory below the root. The hint names its parent directory. */
export function cannotMakeDirectory(
  storage: Pick<Storage, 'label'>,
  directory: Key,
  error: unknown,
): WaybillError {
  const { code, hint } = localFailure(storage, directory, error);
  const parent = parentOf(directory);
  const where = parent === '' ? 'the root of the destination' : `"${parent}"`;
  const isDenied = code === 'storage_denied' && errnoOf(error) !== 'EROFS';
  return new WaybillError(
    code,
    `${storage.label}: the directory "${directory}" cannot be created: ${describeSystemError(error)}`,
    { cause: error, hint: isDenied ? `give the user that runs waybill write access to ${where}` : hint },
  );
}
