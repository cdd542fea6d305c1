import type { Clock } from '../../../lib/clock.ts';
import { WaybillError } from '../../../lib/errors.ts';
import { onAbort } from '../../../lib/on-abort.ts';
import { answerName, failureOf, hintAt, namedKey, s3Error, type S3Place } from '../errors.ts';

/** The time a call may take besides sending its body. A silent connection is closed earlier, see sdk.ts. */
const answerWithinMs = 180_000;
/** The slowest connection that is worth waiting for: 16 bytes/ms are 16 kB/s. */
const slowestBytesPerMs = 16;

/** Runs single requests. Failures are mapped to `WaybillError`s whose messages name the key. */
export interface S3Calls {
  /**
   * Runs one request with a deadline that grows with the body. If `signal` aborts first, the call rejects
   * with its reason.
   */
  readonly call: <T>(
    key: string,
    send: (abortSignal: AbortSignal) => Promise<T>,
    options?: { bodyBytes?: number; signal?: AbortSignal | undefined },
  ) => Promise<T>;
  /** The chunks of an answer. A connection that breaks meanwhile fails like a call. */
  chunksOf(key: string, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** `storage_permanent`: the server answered a request for `key` in a way that cannot be used. */
  readonly unusableAnswer: (key: string, what: string, hint?: string) => WaybillError;
}

export function s3Calls(place: S3Place, clock: Clock): S3Calls {
  return {
    async call(key, send, { bodyBytes = 0, signal } = {}) {
      signal?.throwIfAborted();
      const ended = new AbortController();
      const stop = (): void => ended.abort(signal?.reason);
      const release = signal === undefined ? undefined : onAbort(signal, stop);
      const withinMs = answerWithinMs + bodyBytes / slowestBytesPerMs;
      const deadline = clock.timeout(withinMs, () => ended.abort(noAnswer(key, withinMs)));
      const stopped = new Promise<never>((_, reject) => {
        onAbort(ended.signal, () => reject(ended.signal.reason as Error));
      });
      try {
        // The HTTP handler waits for a body to be sent before it rejects.
        return await Promise.race([send(ended.signal), stopped]);
      } catch (error) {
        throw ended.signal.aborted ? ended.signal.reason : failed(key, error);
      } finally {
        deadline.cancel();
        release?.();
      }
    },

    async *chunksOf(key, body) {
      try {
        yield* body;
      } catch (error) {
        throw failed(key, error, ', in the middle of the object');
      }
    },

    unusableAnswer: (key, what, hint) =>
      new WaybillError(
        'storage_permanent',
        `${place.label}: ${namedKey(place, key)}: the server answered with ${what}`,
        {
          ...(hint === undefined ? {} : { hint: hintAt(place, hint) }),
        },
      ),
  };

  function failed(key: string, error: unknown, step = ''): WaybillError {
    if (error instanceof WaybillError) return error;
    return s3Error(place, namedKey(place, key) + step, failureOf(error), clock.now());
  }

  function noAnswer(key: string, withinMs: number): WaybillError {
    const failure = { name: 'TimeoutError', message: '', status: null, headers: {} };
    return s3Error(
      place,
      `${namedKey(place, key)}, after ${Math.round(withinMs / 1000)} s`,
      failure,
      clock.now(),
    );
  }
}

/** Runs `work` and takes the S3 error `name` ("it does not exist") for success. */
export async function ignoring(name: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (answerName(error) !== name) throw error;
  }
}
