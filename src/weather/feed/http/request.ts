import type { Clock } from '../../../core/lib/clock.ts';
import { parseRetryAfter } from '../../../core/lib/retry.ts';
import type { Validators } from '../tables/requests.ts';

export interface RequestOptions {
  clock: Clock;
  userAgent: string;
  timeoutMs: number;
  /** Bytes, decompressed. */
  maxBody: number;
  signal?: AbortSignal;
}

/** A document as a server gave it, or its word that it is the one of the validators. */
export type Answer =
  { kind: 'fresh'; text: string; at: Date; validators: Validators } | { kind: 'same'; at: Date };

/** A request that brought nothing. */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed';
  /** Whether trying again may help. */
  readonly retry: boolean;
  /** How long the server asks to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, retry: boolean, retryAfterMs?: number) {
    super(message);
    this.retry = retry;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A server whose clock is further ahead than this does not say when anything was. */
const skewMs = 5 * 60_000;
const accepted = 'application/geo+json, application/ld+json;q=0.9, */*;q=0.5';

/**
 * One GET request, conditional where there are validators. Redirects are not followed. `at` is when the
 * server says that it answered, which the copies of caches keep. Throws `RequestFailed`, and the signal's
 * reason.
 */
export async function request(
  url: string,
  known: Validators | null,
  options: RequestOptions,
): Promise<Answer> {
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
    // Ends what is left of an answer that is not read.
    late.abort();
  }
}

function headersOf(userAgent: string, known: Validators | null): Record<string, string> {
  const headers: Record<string, string> = { 'user-agent': userAgent, accept: accepted };
  // RFC 9110, 13.1.3: a recipient that understands the tag ignores the date.
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
  // So the service refuses who does not say whom to write to, or asks too much.
  const hint = status === 403 ? ' (does user_agent of weather.feed.nws name whom to write to?)' : '';
  return new RequestFailed(
    `the server answered ${status}${said === '' ? '' : `: ${said}`}${hint}`,
    retry,
    retryAfterMs,
  );
}

/** The title of a problem document (RFC 9457), as one short line. */
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

async function bodyOf(response: Response, most: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > most)
      throw new RequestFailed(
        `the answer is larger than ${most} bytes (max_body of weather.feed.nws)`,
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

/** `fetch failed` has what failed as its cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `the name of the server is not known, or no name server answers (${code})`;
  return `the server cannot be reached, or broke off (${code === '' ? cause.message : code})`;
}
