import { hasCode } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { notFound, notKept } from '../errors.ts';
import type { Key } from '../key.ts';
import type { Kept, KeptBy } from '../storage.ts';
import type { S3Wire } from './wire.ts';

/** Larger objects cannot be copied by one request, which is the limit of S3. */
export const largestCopyBytes = 5 * 2 ** 30;

/** Keeps objects that are about to be replaced or removed. Throws as `S3Wire` does. */
export interface S3Keeper {
  /** As `Storage.keep`. */
  keep(key: Key, aside: Key): Promise<Kept | null>;
  /** As `Storage.putBack`. */
  putBack(kept: Kept): Promise<void>;
}

/**
 * In a bucket with versions, the version of the object is noted, if it may be read; otherwise the server
 * copies the object, with its headers and metadata. An object that is too large for that, or that the server
 * does not copy, is published all the same, and cannot be put back.
 */
export function s3Keeper(
  wire: S3Wire,
  at: (key: Key) => string,
  { label, log }: { label: string; log: Log },
): S3Keeper {
  let hasVersions = true;
  let readsVersions: Promise<boolean> | undefined;

  return {
    async keep(key, aside) {
      const version = hasVersions ? await versionOf(key) : null;
      if (version === undefined) return null;
      if (version !== null) return { key, aside, by: 'version', version };
      const by = await copyOf(key, aside);
      return by === null ? null : { key, aside, by, version: null };
    },

    async putBack({ key, aside, by, version }) {
      if (by === 'nothing') throw notKept({ label }, key);
      const from = version === null ? { key: at(aside) } : { key: at(key), version };
      if (!(await wire.copy(from, at(key)))) throw notFound({ label }, key);
    },
  };

  /**
   * The version to put back; null if the object has to be copied, undefined if there is none. An object with
   * the version "null" is from before the bucket had versions, and may be lost when it is replaced.
   */
  async function versionOf(key: Key): Promise<string | null | undefined> {
    const found = await wire.head(at(key));
    if (found === undefined) return undefined;
    const { storedVersion: version } = found;
    if (version === null) hasVersions = false;
    if (version === null || version === 'null' || found.size > largestCopyBytes) return null;
    return (await mayRead(key, version)) ? version : null;
  }

  /** Reading a version is a right of its own. */
  async function mayRead(key: Key, version: string): Promise<boolean> {
    readsVersions ??= wire.head(at(key), version).then(
      (found) => found !== undefined,
      (error: unknown) => {
        if (hasCode(error, 'storage_transient')) throw error;
        return false;
      },
    );
    readsVersions.catch(() => (readsVersions = undefined));
    return readsVersions;
  }

  async function copyOf(key: Key, aside: Key): Promise<KeptBy | null> {
    const outcome = await copyOnServer(wire, at(key), at(aside), { label, log });
    if (outcome !== 'refused') return outcome === 'done' ? 'copy' : null;
    log.warn(
      { storage: label, key },
      'the object cannot be kept: if the publication fails, the next run finishes it',
    );
    return 'nothing';
  }
}

/** Has the server copy an object. Throws only what may be otherwise next time. */
export async function copyOnServer(
  wire: S3Wire,
  from: string,
  to: string,
  { label, log }: { label: string; log: Log },
): Promise<'done' | 'absent' | 'refused'> {
  try {
    return (await wire.copy({ key: from }, to)) ? 'done' : 'absent';
  } catch (error) {
    if (hasCode(error, 'storage_transient') || hasCode(error, 'storage_full')) throw error;
    log.debug({ storage: label, key: from, err: error }, 'the server does not copy the object');
    return 'refused';
  }
}
