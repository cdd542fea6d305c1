import { hexOf } from '../../lib/digest.ts';
import { hasCode } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';
import type { BucketClient } from './s3-client.ts';

/** The largest object that S3 can copy in a single request, in bytes. */
export const maxCopyBytes = 5 * 2 ** 30;

/**
 * Writes bodies that the server already has as objects, so that they do not need to be transferred. A body is
 * only copied if its object was stored with the expected digest and has not changed since.
 */
export class ServerCopier {
  readonly #options: { client: BucketClient; label: string; log: Log };
  /** Whether the server has refused to copy, for example because we may not access the other bucket. */
  #isRefused = false;

  constructor(options: { client: BucketClient; label: string; log: Log }) {
    this.#options = options;
  }

  /**
   * Copies the object behind a body. Returns null if it does not exist, if its digest is unknown or not the
   * right one, or if the server refuses. The caller then has to read the body. Throws `storage_transient`,
   * `storage_full`, and the error of `origin`.
   */
  async copy(
    to: string,
    { origin, size }: Body,
    { digest, headers = {}, onBytes }: WriteOptions,
  ): Promise<Written | null> {
    const { client } = this.#options;
    if (origin === undefined || digest === undefined || this.#isRefused || size > maxCopyBytes) return null;
    const { server, bucket, key } = origin();
    if (server !== client.placeOf(to).server) return null;
    const found = await this.#nullIfRefused(key, async () => client.head(key, undefined, bucket));
    const sha256 = hexOf(digest);
    if (found?.size !== size || found.sha256 !== sha256) return null;
    origin();
    const from = { bucket, key, ifMatch: found.version };
    const version = await this.#nullIfRefused(key, async () => client.copy(from, to, { headers, sha256 }));
    if (version == null) return null;
    onBytes?.(size);
    return { size, digest, version };
  }

  async #nullIfRefused<T>(key: string, work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (hasCode(error, 'storage_transient') || hasCode(error, 'storage_full')) throw error;
      const { label, log } = this.#options;
      // If the object has just been replaced, the caller notices when it reads the body.
      if (!hasCode(error, 'storage_conflict')) this.#isRefused = true;
      log.debug({ storage: label, key, err: error }, 'the server does not copy from the other place');
      return null;
    }
  }
}
