import { hexOf, type Digest } from '../../lib/digest.ts';
import { hasCode } from '../../lib/errors.ts';
import { retry, type RetryOptions } from '../../lib/retry.ts';
import type { Semaphore } from '../../lib/parallel.ts';
import { measure, collect } from '../body.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';
import type { Condition, S3Wire } from './wire.ts';

export interface WholePutOptions {
  wire: S3Wire;
  /** Permits are bytes of memory. */
  budget: Semaphore;
  /** How writes on a condition are retried. Others are retried by the caller. */
  retry: RetryOptions;
}

/**
 * Writes a body as one object in one request, after its digest has been verified in memory. `name` is for
 * messages, `key` that of the object. Throws `body_mismatch`, and `storage_conflict` if the condition does
 * not hold.
 */
export async function putWhole(
  { name, key }: { name: string; key: string },
  body: Body,
  write: WriteOptions,
  condition: Condition | undefined,
  { wire, budget, retry: retryOptions }: WholePutOptions,
): Promise<Written> {
  const release = await budget.acquire(body.size);
  try {
    const { bytes, ...read } = await collect(name, body, write);
    const put = async (): Promise<string> =>
      wire.put(key, bytes, {
        sha256: hexOf(read.digest),
        headers: write.headers ?? {},
        condition,
        signal: write.signal,
      });
    const version =
      condition === undefined ? await put() : await putSurely(wire, put, { key, ...read }, retryOptions);
    return { ...read, version };
  } finally {
    release();
  }
}

/**
 * Servers answer a race of conditional writes with 409 or 500, whether or not the write was applied. If it
 * was, a retry breaks its own condition, so the object is then compared with what was sent. A late arrival of
 * our first attempt cannot replace the bytes of another writer, since it carries the condition, too.
 */
async function putSurely(
  wire: S3Wire,
  put: () => Promise<string>,
  mine: { key: string; size: number; digest: Digest },
  retryOptions: RetryOptions,
): Promise<string> {
  let isUncertain = false;
  return retry(retryOptions, async () => {
    try {
      return await put();
    } catch (error) {
      isUncertain ||= hasCode(error, 'storage_transient');
      if (!isUncertain || !hasCode(error, 'storage_conflict')) throw error;
      const found = await wire.head(mine.key);
      if (found?.size !== mine.size || (await measure(await wire.get(mine.key))).digest !== mine.digest)
        throw error;
      return found.version;
    }
  });
}
