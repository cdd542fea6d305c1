import { WaybillError } from '../lib/errors.ts';
import type { Storage } from './storage.ts';

/*
 * Protects against broken or hostile storage servers. Their responses are bounded, so that none can block
 * this process, and the names they return cannot lead outside the requested location.
 */

/** Maximum depth of nested directories in a listing. */
export const maxDepth = 64;
/** Maximum number of names in one directory or response. */
export const maxNames = 1_000_000;
/** Maximum size of the names of one directory, in UTF-16 code units. */
export const maxNameUnits = 256 << 20;
/** Maximum number of names in all pages or directories of a listing. */
export const maxListed = 10_000_000;
/** Maximum number of consecutive pages without a name. */
export const maxEmptyPages = 1_000;

/** Returns true if this is a valid name for a directory entry reported by a server. */
export function isName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}

/** `storage_permanent`: a server's response is refused. */
export function distrusted(storage: Pick<Storage, 'label'>, why: string): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: the answer of the server is refused: ${why}`,
    {
      hint: 'the server is broken or hostile, or another program stores files there: look at the place by other means',
    },
  );
}
