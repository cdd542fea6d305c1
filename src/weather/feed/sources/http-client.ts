import type { Clock } from '../../../core/lib/clock.ts';
import { createSemaphore } from '../../../core/lib/parallel.ts';
import { parseRetryAfter } from '../../../core/lib/retry.ts';
import type { Validators } from '../tables/requests.ts';

export interface ClientOptions extends RequestOptions {
  concurrency: number;
  /** Returns a number in [0, 1). For tests. */
  random?: () => number;
}

/**
 * Requests a document, and retries if that fails. Throws `RequestFailed` if no attempt succeeds, or the
 * signal's reason if it is aborted.
 */
export type Get = (url: string, known: Validators | null) => Promise<FeedAnswer>;

const tries = 4;
const firstPauseMs = 1000;
const maxPauseMs = 60_000;
/**
 * The longest pause that we let a server ask for. If it asks for more, the request fails, but the next round
 * still waits this long.
 */
const maxWaitMs = 5 * 60_000;

/**
 * Creates a client for one service, with a limit on concurrent requests. Temporary failures are retried with
 * exponential backoff and full jitter. A `Retry-After` from the server delays all requests, because it is
 * meant for the client as a whole.
 */
export function createClient(options: ClientOptions): Get {
  const { clock, concurrency, signal, random = Math.random } = options;
  const permits = createSemaphore(concurrency);
  const pause = sharedPause(clock);
  return async (url, known) => {
    const release = await permits.acquire(1, signal);
    try {
      for (let attempt = 1; ; attempt += 1) {
        await pause.wait(signal);
        try {
          return await request(url, known, options);
        } catch (error) {
          if (!(error instanceof RequestFailed) || !error.retry) throw error;
          const { retryAfterMs } = error;
          if (retryAfterMs !== undefined) pause.extend(Math.min(retryAfterMs, maxWaitMs));
          if (attempt === tries || (retryAfterMs ?? 0) > maxWaitMs) throw error;
          if (retryAfterMs === undefined)
            await clock.sleep(
              Math.floor(random() * Math.min(maxPauseMs, firstPauseMs * 2 ** (attempt - 1))),
              signal,
            );
        }
      }
    } finally {
      release();
    }
  };
}

/**
 * Creates a pause that applies to all requests. `extend` makes it longer, and `wait` resolves once it is
 * over.
 */
function sharedPause(clock: Clock): { extend(ms: number): void; wait(signal?: AbortSignal): Promise<void> } {
  let until = 0;
  return {
    extend(ms) {
      until = Math.max(until, clock.monotonic() + ms);
    },
    async wait(signal) {
      for (let ms = until - clock.monotonic(); ms > 0; ms = until - clock.monotonic())
        await clock.sleep(Math.ceil(ms), signal);
    },
  };
}

interface RequestOptions {
  clock: Clock;
  userAgent: string;
  timeoutMs: number;
  /** The maximum size of the response body in bytes, after decompression. */
  maxBody: number;
  signal?: AbortSignal;
}

/** A document, or a confirmation by the server that the document we have is still current. */
export type FeedAnswer =
  { kind: 'fresh'; text: string; at: Date; validators: Validators } | { kind: 'same'; at: Date };

/** Thrown if a request failed, or if its response cannot be used. */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed';
  /** True if it makes sense to try again. */
  readonly retry: boolean;
  /** How long the server asked us to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retry: boolean, retryAfterMs?: number) {
    super(message);
    this.retry = retry;
    this.retryAfterMs = retryAfterMs;
  }
}

/** If a server's clock is ahead of ours by more than this, its times are ignored. */
const skewMs = 5 * 60_000;
const accepted = 'application/geo+json, application/ld+json;q=0.9, */*;q=0.5';

/**
 * Sends a single GET request. If `known` has validators, the request is conditional. Redirects are not
 * followed. `at` in the result is the server's time, which stays the same if the response comes from a cache.
 * Throws `RequestFailed`, or the signal's reason if it is aborted.
 */
export async function request(
  url: string,
  known: Validators | null,
  options: RequestOptions,
): Promise<FeedAnswer> {
  const { clock, timeoutMs, maxBody } = options;
  const late = new AbortController();
  const timer = clock.timeout(timeoutMs, () => late.abort());
  const signals = [late.signal, ...(options.signal === undefined ? [] : [options.signal])];
  try {
    const response = await fetch(url, {
      headers: headersOf(options.userAgent, known),
      redirect: 'manual',
      signal: AbortSignal.any(signals),
    });
    const at = dateOf(response, clock.now());
    if (response.status === 304) return { kind: 'same', at };
    if (response.status !== 200) throw await refusal(response, clock);
    const text = textOf(await bodyOf(response, maxBody));
    return { kind: 'fresh', text, at, validators: validatorsOf(response) };
  } catch (error) {
    options.signal?.throwIfAborted();
    if (error instanceof RequestFailed) throw error;
    throw new RequestFailed(late.signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error), true);
  } finally {
    timer.cancel();
    // If the response has not been read completely, stop receiving it.
    late.abort();
  }
}

function headersOf(userAgent: string, known: Validators | null): Record<string, string> {
  const headers: Record<string, string> = { 'user-agent': userAgent, accept: accepted };
  // Send both. According to RFC 9110, section 13.1.3, servers that support the ETag ignore the date.
  if (known?.etag != null) headers['if-none-match'] = known.etag;
  if (known?.lastModified != null) headers['if-modified-since'] = known.lastModified;
  return headers;
}

function validatorsOf({ headers }: Response): Validators {
  return { etag: headers.get('etag'), lastModified: headers.get('last-modified') };
}

function dateOf({ headers }: Response, now: Date): Date {
  const at = new Date(headers.get('date') ?? '');
  return Number.isNaN(at.getTime()) || at.getTime() > now.getTime() + skewMs ? now : at;
}

async function refusal(response: Response, clock: Clock): Promise<RequestFailed> {
  const { status, headers } = response;
  const retry = status === 408 || status === 425 || status === 429 || status >= 500;
  const retryAfterMs = retry
    ? parseRetryAfter(headers.get('retry-after') ?? undefined, clock.now())
    : undefined;
  const said = await problemOf(response);
  // The service sends a 403 to clients without contact information, and to those that send too many requests.
  const hint = status === 403 ? ' (does user_agent of weather.feed.nws name a contact?)' : '';
  return new RequestFailed(
    `the server answered ${status}${said === '' ? '' : `: ${said}`}${hint}`,
    retry,
    retryAfterMs,
  );
}

/** Returns the title from a problem document (RFC 9457), shortened and on a single line. */
async function problemOf(response: Response): Promise<string> {
  if (!/\bjson\b/.test(response.headers.get('content-type') ?? '')) return '';
  try {
    const problem: unknown = JSON.parse(textOf(await bodyOf(response, 64 * 1024)));
    const title = typeof problem === 'object' && problem !== null && 'title' in problem ? problem.title : '';
    return typeof title === 'string' ? title.replaceAll(/\s+/g, ' ').slice(0, 200) : '';
  } catch {
    return '';
  }
}

async function bodyOf(response: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > maxBytes)
      throw new RequestFailed(
        `the answer is larger than ${maxBytes} bytes (max_body of weather.feed.nws)`,
        false,
      );
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new RequestFailed('the answer is not UTF-8', false);
  }
}

/** If the message is `fetch failed`, the actual reason is in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `the name of the server is not known, or no name server answers (${code})`;
  return `the server cannot be reached, or broke off (${code === '' ? cause.message : code})`;
}
