import { WaybillError } from '../lib/errors.ts';
import { quotedName } from '../lib/text.ts';

/*
 * Protects waybill from storage servers that are broken or malicious. It limits the size of responses, so
 * that none of them can block this process, and makes sure that listed names do not lead outside of the
 * requested location.
 */

/** A storage, as far as messages need it. */
export interface Labelled {
  label: string;
}

/**
 * The maximum depth of nested directories in a listing. The path of a bundle and those of its files have at
 * most 64 segments each, and a release adds a few.
 */
export const maxDepth = 144;
/** The maximum number of names in a listing. */
export const maxListed = 2_000_000;
/** The maximum size of all names of a listing, in bytes of memory. */
export const maxListedBytes = 192 << 20;
/** The maximum length of a listed path, in UTF-16 code units. Linux and S3 allow less. */
export const maxNameUnits = 4096;
/** The maximum number of consecutive pages without a single name. */
export const maxEmptyPages = 1_000;

/**
 * Counts the names of a listing, which may consist of several calls of `Storage.list`. Without a limit, a
 * server could fill the memory with names.
 */
export class ListingLimit {
  readonly #max: { names: number; bytes: number };
  #names = 0;
  #bytes = 0;

  /** By default, a listing takes at most about 500 MB of memory. */
  constructor(max = { names: maxListed, bytes: maxListedBytes }) {
    this.#max = max;
  }

  /** Throws `storage_permanent` if the directory is too deep, or leads back to itself. */
  enter(storage: Labelled, directory: string): void {
    if (directory.split('/').length > maxDepth)
      throw tooLarge(storage, `directories are nested deeper than ${maxDepth}`);
  }

  /** Throws `storage_permanent` if there are more or longer names than fit into memory. */
  add(storage: Labelled, name: string): void {
    if (name.length > maxNameUnits)
      throw tooLarge(storage, `${quotedName(name)} has more than ${maxNameUnits} characters`);
    this.#names += 1;
    this.#bytes += isWide.test(name) ? 2 * name.length : name.length;
    if (this.#names > this.#max.names) throw tooLarge(storage, `more than ${this.#max.names} names`);
    if (this.#bytes > this.#max.bytes) throw tooLarge(storage, `names of more than ${this.#max.bytes} bytes`);
  }
}

/** A string with one of these characters takes two bytes of memory per code unit. */
const isWide = /[\u0100-\uffff]/;

function tooLarge(storage: Labelled, why: string): WaybillError {
  return new WaybillError('storage_permanent', `${storage.label}: the listing is too large: ${why}`, {
    hint: 'publish from or to a directory with fewer files; if there are few, the server is broken or hostile',
  });
}

/** Returns true if a server may use this as the name of a directory entry. */
export function isName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}

/**
 * Returns the size of a file, as a server reported it. Throws `storage_permanent` unless it is a whole number
 * of bytes. A comparison with anything else is false, and would let a body go on without an end.
 */
export function sizeFrom(storage: Labelled, key: string, size: number | undefined): number {
  if (size !== undefined && Number.isSafeInteger(size) && size >= 0) return size;
  throw distrusted(storage, `${quotedName(key)} has the size ${String(size)}`);
}

/** `storage_permanent`: we do not trust a server's response. */
export function distrusted(storage: Labelled, why: string): WaybillError {
  return new WaybillError(
    'storage_permanent',
    `${storage.label}: the answer of the server is refused: ${why}`,
    {
      hint: 'the server is broken or hostile, or another program stores files there: inspect the location with another tool',
    },
  );
}
