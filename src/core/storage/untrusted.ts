import { WaybillError } from '../lib/errors.ts';
import type { Storage } from './storage.ts';

/*
 * Storage servers may be broken or hostile. Their responses are bounded, so that none can block this
 * process. Their names cannot lead outside the requested location.
 */

/** Directories below one another that a listing follows. */
export const maxDepth = 64;
/** Names in one answer. */
export const maxNames = 1_000_000;
/** Names in all pages of a listing. */
export const maxListed = 10_000_000;
/** Pages without a name that may follow one another. */
export const maxEmptyPages = 1_000;

/** Whether a server may give an entry of a directory this name. */
export function isName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}

/** `storage_permanent`: the answer of a server is refused. */
export function distrusted(storage: Pick<Storage, 'label'>, why: string): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: the answer of the server is refused: ${why}`,
    {
      hint: 'the server is broken or hostile, or another program stores files there: look at the place by other means',
    },
  );
}
