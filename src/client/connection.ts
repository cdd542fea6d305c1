import { type Clock, systemClock } from '../core/lib/clock.ts';
import { hasCode, WaybillError } from '../core/lib/errors.ts';
import { RateLimiter } from '../core/lib/rate-limiter.ts';
import { type Answer, exchange, type Method } from './exchange.ts';
import { connectionFailure, refusalOf, textOf } from './failures.ts';
import type { ExchangeForm, TokenSource } from './token-source.ts';

/* Sends requests to a daemon, with authentication, timeouts and retries. */

/** Times are in milliseconds. */
export interface ConnectionOptions {
  /** The daemon's URL, including its base path if it has one. */
  url: string | URL;
  /** The value of one of the daemon's `upload_tokens`, or a source such as `exchangedToken`. */
  token?: string | TokenSource;
  /** Aborts all requests. They throw its reason. */
  signal?: AbortSignal;
  /** The maximum combined rate of all request bodies, in bytes per second. Default: no limit. */
  maxRate?: number;
  patience?: Partial<Patience>;
  /** The timeout for a body that makes no progress, in either direction. Default: 60 s. */
  idleMs?: number;
  /** The timeout for the response after the request was sent. Default: 5 minutes. */
  answerMs?: number;
  /** Called before each pause after a transient failure. */
  onRetry?: (failure: WaybillError, pauseMs: number) => void;
  clock?: Clock;
  random?: () => number;
}

export interface Ask {
  method?: Method;
  /** Relative to the daemon's URL or, with a leading slash, to its host. */
  path: string;
  query?: Readonly<Record<string, string | undefined>>;
  headers?: Readonly<Record<string, string>>;
  /** Opens the body. Called for each try. */
  body?: () => AsyncIterable<Uint8Array>;
  idleMs?: number;
  /** If false, the request is not repeated when its token is refused; the next one gets a new token. */
  isRepeatable?: boolean;
}

export interface JsonAnswer {
  headers: Answer['headers'];
  body: unknown;
}

export interface Requests {
  /** Returns a response with a 2xx status. The caller must read or close it. */
  ask(ask: Ask): Promise<Answer>;
  /** Returns the body as JSON. A truncated body is a transient failure. */
  askJson(ask: Ask): Promise<JsonAnswer>;
}

/** Retries each request after transient failures. */
export class Connection implements Requests {
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
  /** The timeout for a response. */
  readonly answerMs: number;
  /** Whether an expired token can be replaced with a new one. */
  readonly canRenew: boolean;
  readonly #single: SingleRequests;
  readonly #retries: RetryOptions;

  /** Throws `usage` if the URL is invalid. */
  constructor(options: ConnectionOptions) {
    const { token, signal, clock = systemClock, answerMs = 300_000, random = Math.random } = options;
    this.clock = clock;
    this.signal = signal;
    this.answerMs = answerMs;
    this.canRenew = typeof token === 'object' && token.isRenewable;
    const single = new SingleRequests({ ...options, clock, answerMs });
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

  ask(ask: Ask): Promise<Answer> {
    return this.withRetries((requests) => requests.ask(ask));
  }

  askJson(ask: Ask): Promise<JsonAnswer> {
    return this.withRetries((requests) => requests.askJson(ask));
  }

  /** Retries `work` as a whole. The requests passed to it are not retried individually. */
  withRetries<T>(work: (requests: Requests) => Promise<T>): Promise<T> {
    return retry(this.#retries, () => work(this.#single));
  }
}

/** Reports whether the daemon refused the token, which may have expired during the request. */
export function isRefusedToken(error: unknown): error is WaybillError {
  return hasCode(error, 'unauthorized') || hasCode(error, 'token_expired');
}

/** Sends each request once, or twice if its token was refused. */
class SingleRequests implements Requests {
  readonly #options: ConnectionOptions & { clock: Clock; answerMs: number };
  readonly #base: URL;
  readonly #limiter: RateLimiter | null;
  /** Whether the daemon has responded before. */
  isReached = false;

  constructor(options: ConnectionOptions & { clock: Clock; answerMs: number }) {
    const { url, clock, maxRate } = options;
    this.#options = options;
    this.#base = baseOf(url);
    this.#limiter = maxRate === undefined ? null : new RateLimiter(clock, maxRate);
  }

  async ask(ask: Ask): Promise<Answer> {
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

  async askJson(ask: Ask): Promise<JsonAnswer> {
    const answer = await this.ask(ask);
    const url = urlOf(this.#base, ask);
    const text = await orConnectionFailure(url, null, () => textOf(answer));
    return { headers: answer.headers, body: parseJson(text, url) };
  }

  async #exchangeForm(form: Readonly<Record<string, string>>): Promise<unknown> {
    const ask = formAsk('v1/token', form);
    return parseJson(await textOf(await this.#send(ask, undefined)), urlOf(this.#base, ask));
  }

  async #send(ask: Ask, token: string | undefined): Promise<Answer> {
    const { signal, clock, answerMs, idleMs = 60_000 } = this.#options;
    const url = urlOf(this.#base, ask);
    const authorization: Record<string, string> =
      token === undefined ? {} : { authorization: `Bearer ${token}` };
    const body = ask.body === undefined ? null : ownBody(this.#pace(ask.body()));
    const answer = await orConnectionFailure(url, body, () =>
      exchange({
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
    throw await orConnectionFailure(url, null, () => refusalOf(answer, url, clock.now()));
  }

  #pace(body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    return this.#limiter === null ? body : this.#limiter.pace(body, this.#options.signal);
  }
}

function formAsk(path: string, form: Readonly<Record<string, string>>): Ask {
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

/** A request body that records its own failures, to distinguish them from connection failures. */
interface OwnBody {
  chunks: AsyncIterable<Uint8Array>;
  failure: () => { error: unknown } | null;
}

function ownBody(body: AsyncIterable<Uint8Array>): OwnBody {
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

/** Runs `work`. Reports its failures with the URL, but failures of `body` unchanged. */
async function orConnectionFailure<T>(url: URL, body: OwnBody | null, work: () => Promise<T>): Promise<T> {
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
    throw new WaybillError('unexpected_answer', `the answer of ${url.origin}${url.pathname} is not JSON`, {
      hint: 'check the URL: it must be the URL of the daemon, including its base path',
      cause: error,
    });
  }
}

function baseOf(text: string | URL): URL {
  const hint = 'write it like https://publish.example.org, with the base path of the daemon if it has one';
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

function urlOf(base: URL, { path, query = {} }: Ask): URL {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) url.searchParams.set(name, value);
  return url;
}

/** How long a client retries. Times are in milliseconds. */
interface Patience {
  /** The total time, starting at the first failure. */
  forMs: number;
  /** The minimum number of tries, regardless of their duration. */
  tries: number;
  /** The upper bound of the first pause. It doubles with each try, up to `capMs`. */
  baseMs: number;
  capMs: number;
}

const defaultPatience: Patience = { forMs: 600_000, tries: 5, baseMs: 500, capMs: 30_000 };

interface RetryOptions {
  patience: Patience;
  clock: Clock;
  signal: AbortSignal | undefined;
  /** Whether the daemon has responded before. */
  wasReached: () => boolean;
  onRetry: ((failure: WaybillError, pauseMs: number) => void) | undefined;
  /** Returns a number in [0, 1). */
  random: () => number;
}

/**
 * Retries `work` while it fails with a transient error. Each pause is the time requested by the server, if
 * any, plus full jitter. If the daemon was never reached, the URL is probably wrong, so only `tries` tries
 * are made. Throws the last error, or the reason of `signal`.
 */
async function retry<T>(options: RetryOptions, work: () => Promise<T>): Promise<T> {
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
