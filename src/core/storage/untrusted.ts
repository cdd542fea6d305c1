import { WaybillError } from '../lib/errors.ts';
import type { Storage } from './storage.ts';

/*
 * Protects waybill from storage servers that are broken or malicious. It limits the size of responses, so
 * that none of them can block this process, and makes sure that listed names don't lead outside of the
 * requested location.
 */

/**
 * The maximum depth of nested directories in a listing. The path of a bundle and those of its files have at
 * most 64 segments each, and a release adds a few.
 */
export const maxDepth = 144;
/** Maximum number of names in one directory or response. */
export const maxNames = 1_000_000;
/** Maximum size of the names of one directory, in UTF-16 code units. */
export const maxNameUnits = 256 << 20;
/** Maximum number of names in all pages or directories of a listing. */
export const maxListed = 10_000_000;
/** Maximum length of an object key, in UTF-16 code units. S3 itself allows 1,024 bytes. */
export const maxKeyUnits = 4096;
/** The maximum number of consecutive pages without a single name. */
export const maxEmptyPages = 1_000;

const maxQuoted = 200;

/** Returns true if a server may use this as the name of a directory entry. */
export function isName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}

/**
 * Returns the size of a file, as a server reported it. Throws `storage_permanent` unless it is a whole number
 * of bytes. A comparison with anything else is false, and would let a body go on without an end.
 */
export function sizeFrom(storage: Pick<Storage, 'label'>, key: string, size: number | undefined): number {
  if (size !== undefined && Number.isSafeInteger(size) && size >= 0) return size;
  throw distrusted(storage, `${quoted(key)} has the size ${String(size)}`);
}

/** Quotes a name from a server for a message. A long name is cut off. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > maxQuoted ? `${name.slice(0, maxQuoted)}…` : name);
}

/** `storage_permanent`: we don't trust a server's response. */
export function distrusted(storage: Pick<Storage, 'label'>, why: string): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: the answer of the server is refused: ${why}`,
    {
      hint: 'the server is broken or hostile, or another program stores files there: look at the place by other means',
    },
  );
}
