import { type Clock, systemClock } from '../core/lib/clock.ts';
import { hasCode, WaybillError } from '../core/lib/errors.ts';
import { RateLimiter } from '../core/lib/rate-limiter.ts';
import { issuedToken, requireShape, unexpectedAnswer } from './answers.ts';
import { type HttpResponse, type Method, sendRequest } from './exchange.ts';
import { connectionFailure, readBodyText, responseError } from './failures.ts';
import type { ExchangeForm, TokenSource } from './token-source.ts';

/* Sends requests to a daemon, and takes care of authentication, timeouts, and retries. */

/** All times are in milliseconds. */
export interface ConnectionOptions {
  /** The URL of the daemon, including its base path, if any. */
  url: string | URL;
  /** One of the daemon's `upload_tokens`, or a source of tokens such as `exchangedToken`. */
  token?: string | TokenSource;
  /** Aborts all requests. They then throw the signal's reason. */
  signal?: AbortSignal;
  /** The maximum rate of all request bodies together, in bytes per second. Default: no limit. */
  maxRate?: number;
  patience?: Partial<Patience>;
  /** The timeout for a request or response body that makes no progress. Default: 60 s. */
  idleMs?: number;
  /** The timeout for a response, once the whole request has been sent. Default: 5 minutes. */
  answerMs?: number;
  /** Called after each transient failure, before the pause. */
  onRetry?: (failure: WaybillError, pauseMs: number) => void;
  clock?: Clock;
  random?: () => number;
}

export interface ApiRequest {
  method?: Method;
  /** Relative to the daemon's URL. If it starts with a slash, it is relative to the host. */
  path: string;
  query?: Readonly<Record<string, string | undefined>>;
  headers?: Readonly<Record<string, string>>;
  /** Opens the body. Called again for every attempt. */
  body?: () => AsyncIterable<Uint8Array>;
  idleMs?: number;
  /** If false, the request is not repeated when its token is refused; the next one gets a new token. */
  isRepeatable?: boolean;
}

export interface JsonResponse {
  url: URL;
  headers: HttpResponse['headers'];
  body: unknown;
}

export interface RequestSender {
  /** Sends a request. Resolves with the response if its status is 2xx. The caller has to read or close it. */
  request(ask: ApiRequest): Promise<HttpResponse>;
  /**
   * Sends a request and parses the response as JSON. A response that is cut off counts as a transient
   * failure.
   */
  requestJson(ask: ApiRequest): Promise<JsonResponse>;
}

/** Retries every request after transient failures. */
export class Connection implements RequestSender {
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  /** The timeout for a response. */
  readonly answerMs: number;
  /** Whether an expired token can be replaced with a new one. */
  readonly canRenew: boolean;
  readonly #single: SingleRequestSender;
  readonly #retries: RequestRetries;

  /** Throws a `usage` error if the URL is invalid. */
  constructor(options: ConnectionOptions) {
    const { token, signal, clock = systemClock, answerMs = 300_000, random = Math.random } = options;
    this.clock = clock;
    this.signal = signal;
    this.answerMs = answerMs;
    this.canRenew = typeof token === 'object' && token.isRenewable;
    const single = new SingleRequestSender({ ...options, clock, answerMs });
    this.#single = single;
    this.#retries = {
      patience: { ...defaultPatience, ...options.patience },
      clock,
      signal,
      wasReached: () => single.isReached,
      onRetry: options.onRetry,
      random,
    };
  }

  request(ask: ApiRequest): Promise<HttpResponse> {
    return this.withRetries((requests) => requests.request(ask));
  }

  requestJson(ask: ApiRequest): Promise<JsonResponse> {
    return this.withRetries((requests) => requests.requestJson(ask));
  }

  /** Retries `work` as a whole. It gets a connection that does not retry individual requests. */
  withRetries<T>(work: (requests: RequestSender) => Promise<T>): Promise<T> {
    return retry(this.#retries, () => work(this.#single));
  }
}

/** Reports whether the daemon refused the token, which may have expired during the request. */
export function isRefusedToken(error: unknown): error is WaybillError {
  return hasCode(error, 'unauthorized') || hasCode(error, 'token_expired');
}

/** Sends each request once, or twice if its token was refused. */
class SingleRequestSender implements RequestSender {
  readonly #options: ConnectionOptions & { clock: Clock; answerMs: number };
  readonly #base: URL;
  readonly #limiter: RateLimiter | null;
  /** True if the daemon has ever responded. */
  isReached = false;

  constructor(options: ConnectionOptions & { clock: Clock; answerMs: number }) {
    const { url, clock, maxRate } = options;
    this.#options = options;
    this.#base = parseBaseUrl(url);
    this.#limiter = maxRate === undefined ? null : new RateLimiter(clock, maxRate);
  }

  async request(ask: ApiRequest): Promise<HttpResponse> {
    const { token } = this.#options;
    if (token === undefined || typeof token === 'string') return this.#send(ask, token);
    const exchangeForm: ExchangeForm = (form) => this.#exchangeForm(form);
    const value = await token.value(exchangeForm);
    try {
      return await this.#send(ask, value);
    } catch (error) {
      if (!isRefusedToken(error) || !token.refused(value) || ask.isRepeatable === false) throw error;
      return this.#send(ask, await token.value(exchangeForm));
    }
  }

  async requestJson(ask: ApiRequest): Promise<JsonResponse> {
    return this.#jsonOf(ask, await this.request(ask));
  }

  async #jsonOf(ask: ApiRequest, answer: HttpResponse): Promise<JsonResponse> {
    const url = requestUrl(this.#base, ask);
    const text = await wrapErrors(url, null, () => readBodyText(answer));
    return { url, headers: answer.headers, body: parseJson(text, url) };
  }

  async #exchangeForm(form: Parameters<ExchangeForm>[0]): ReturnType<ExchangeForm> {
    const ask = formRequest('v1/token', form);
    return requireShape(await this.#jsonOf(ask, await this.#send(ask, undefined)), issuedToken);
  }

  async #send(ask: ApiRequest, token: string | undefined): Promise<HttpResponse> {
    const { signal, clock, answerMs, idleMs = 60_000 } = this.#options;
    const url = requestUrl(this.#base, ask);
    const authorization: Record<string, string> =
      token === undefined ? {} : { authorization: `Bearer ${token}` };
    const body = ask.body === undefined ? null : trackBody(this.#pace(ask.body()));
    const answer = await wrapErrors(url, body, () =>
      sendRequest({
        method: ask.method ?? 'GET',
        url,
        headers: { accept: 'application/json', ...authorization, ...ask.headers },
        body: body?.chunks ?? null,
        idleMs: ask.idleMs ?? idleMs,
        answerMs,
        signal,
        clock,
      }),
    );
    this.isReached = true;
    if (answer.status >= 200 && answer.status < 300) return answer;
    throw await wrapErrors(url, null, () => responseError(answer, url, clock.now()));
  }

  #pace(body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    return this.#limiter === null ? body : this.#limiter.pace(body, this.#options.signal);
  }
}

function formRequest(path: string, form: Readonly<Record<string, string>>): ApiRequest {
  const bytes = Buffer.from(new URLSearchParams(form).toString());
  return {
    method: 'POST',
    path,
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'content-length': String(bytes.length) },
    body: async function* () {
      yield bytes;
    },
  };
}

/** A request body that remembers whether it failed, so that this is not mistaken for a connection failure. */
interface TrackedBody {
  chunks: AsyncIterable<Uint8Array>;
  failure: () => { error: unknown } | null;
}

function trackBody(body: AsyncIterable<Uint8Array>): TrackedBody {
  let failure: { error: unknown } | null = null;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      failure = { error };
      throw error;
    }
  }
  return { chunks: chunks(), failure: () => failure };
}

/** Runs `work`. If it fails, the error mentions the URL, unless it was `body` that failed. */
async function wrapErrors<T>(url: URL, body: TrackedBody | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const own = body?.failure() ?? null;
    throw own === null ? connectionFailure(error, url) : own.error;
  }
}

function parseJson(text: string, url: URL): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw unexpectedAnswer(url, 'is not JSON', error);
  }
}

function parseBaseUrl(text: string | URL): URL {
  const hint = /^[\w.-]+(:\d+)?(\/|$)/.test(String(text))
    ? `write https://${String(text)}, or http://${String(text)}`
    : 'write it like https://publish.example.org, with the base path of the daemon if it has one';
  const url = URL.canParse(String(text)) ? new URL(String(text)) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new WaybillError('usage', `"${String(text)}" is not the URL of a daemon`, { hint });
  if (url.username !== '' || url.password !== '')
    throw new WaybillError('usage', 'the URL of the daemon has a user name or password', {
      hint: 'remove it, and set WAYBILL_TOKEN to the token',
    });
  if (url.search !== '' || url.hash !== '')
    throw new WaybillError('usage', 'the URL of the daemon has a "?" or "#"', { hint });
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

function requestUrl(base: URL, { path, query = {} }: ApiRequest): URL {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) url.searchParams.set(name, value);
  return url;
}

/** How long to keep retrying. All times are in milliseconds. */
interface Patience {
  /** Stop retrying this long after the first failure. */
  forMs: number;
  /** The minimum number of attempts, even if that takes longer. */
  tries: number;
  /** The longest that the first pause can be. This limit doubles with every attempt, up to `capMs`. */
  baseMs: number;
  capMs: number;
}

const defaultPatience: Patience = { forMs: 600_000, tries: 5, baseMs: 500, capMs: 30_000 };

interface RequestRetries {
  patience: Patience;
  clock: Clock;
  signal: AbortSignal | undefined;
  /** Returns true if the daemon has ever responded. */
  wasReached: () => boolean;
  onRetry: ((failure: WaybillError, pauseMs: number) => void) | undefined;
  /** Returns a random number from 0 (inclusive) to 1 (exclusive). */
  random: () => number;
}

/**
 * Retries `work` as long as its failures are transient. Each pause is as long as the server asked for, if it
 * did, plus a random amount of time (full jitter). If the daemon has never responded, the URL is probably
 * wrong, so this gives up after `tries` attempts. Throws the last error, or the reason of `signal`.
 */
async function retry<T>(options: RequestRetries, work: () => Promise<T>): Promise<T> {
  const { patience, clock, signal, random } = options;
  let since: number | null = null;
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (failure) {
      if (signal?.aborted === true) throw signal.reason;
      if (!(failure instanceof WaybillError) || !failure.retryable) throw failure;
      since ??= clock.monotonic();
      const { baseMs, capMs, forMs } = patience;
      const askedMs = (failure.retryAfterSeconds ?? 0) * 1000;
      const pauseMs = askedMs + Math.floor(random() * Math.min(capMs, baseMs * 2 ** (tries - 1)));
      const isWrongPlace = hasCode(failure, 'daemon_unreachable') && !options.wasReached();
      const isOverdue = clock.monotonic() - since + pauseMs > forMs;
      if (tries >= patience.tries && (isWrongPlace || isOverdue)) throw failure;
      options.onRetry?.(failure, pauseMs);
      await clock.sleep(pauseMs, signal);
    }
  }
}
