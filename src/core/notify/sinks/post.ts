import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Clock } from '../../lib/clock.ts';
import { WaybillError } from '../../lib/errors.ts';
import { reachServer } from '../../lib/reach-server.ts';
import { parseRetryAfter } from '../../lib/retry.ts';
import type { Event } from '../event.ts';
import type { SendResult, Sink, SinkRefusal } from '../sink.ts';
import { signedHeaders, type SigningKey } from '../webhook-signature.ts';
import { AddressError, certificateFault, codeOf, guardLookup, refusedIpHost } from './guarded-lookup.ts';

interface PostOptions {
  url: string;
  timeoutMs: number;
  /** Addresses and CIDR ranges to allow, even if the policy would refuse them. */
  allowAddresses: readonly string[];
  /** How many requests to send at a time. */
  concurrency: number;
  clock: Clock;
  /** Returns the body for an attempt and, if necessary, more headers. */
  compose: (event: Event) => { body: string; headers?: Record<string, string> };
  /** Only set in tests. */
  lookup?: LookupFunction;
}

export interface WebhookOptions extends Omit<PostOptions, 'compose' | 'concurrency'> {
  keys: readonly SigningKey[];
}

/** Sends events as JSON, with signatures as in Standard Webhooks. */
export function webhookSink({ keys, ...options }: WebhookOptions): Sink {
  return postSink({
    ...options,
    concurrency: 4,
    compose: (event) => {
      const body = JSON.stringify(event);
      return { body, headers: signedHeaders(keys, { id: event.id, at: options.clock.now(), body }) };
    },
  });
}

/**
 * Sends events as JSON in POST requests. Redirects are not followed, and proxies in the environment are not
 * used.
 */
export function postSink(options: PostOptions): Sink {
  const { url, clock, timeoutMs, allowAddresses, concurrency, compose } = options;
  const target = new URL(url);
  const isTls = target.protocol === 'https:';
  const agent = new (isTls ? HttpsAgent : HttpAgent)({ keepAlive: true });
  const lookup = guardLookup(allowAddresses, options.lookup);
  const refused = refusedIpHost(target.hostname, allowAddresses);
  return {
    concurrency,
    timeoutMs,
    async send(event, signal, trace) {
      if (refused !== null) return connectionFailure(new AddressError(refused));
      const { body, headers: more } = compose(event);
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'waybill',
        // The keys in a trace context are header names.
        ...trace,
        ...more,
      };
      const send = isTls ? httpsRequest : httpRequest;
      return new Promise<SendResult>((resolve) => {
        send(target, { method: 'POST', agent, headers, lookup, signal })
          .on('error', (error) => resolve(connectionFailure(error)))
          .on('response', (response) => {
            resolve(interpretResponse(response, target, clock));
            // We do not need the body, but the connection cannot be used again before it has been read.
            discard(response, clock, timeoutMs);
          })
          .end(body);
      });
    },
    close: async () => agent.destroy(),
  };
}

/** Connects to the host of a webhook and disconnects. Throws an `unreachable` error if that fails. */
export async function reachWebhook(
  { url, allowAddresses }: Pick<WebhookOptions, 'url' | 'allowAddresses'>,
  signal: AbortSignal,
): Promise<string> {
  const target = new URL(url);
  try {
    await reachServer(target, { signal, lookup: guardLookup(allowAddresses) });
    return `connected to ${target.origin}; nothing was sent (waybill notify test sends an event)`;
  } catch (error) {
    signal.throwIfAborted();
    const { reason } = connectionFailure(error instanceof Error ? error : new Error(String(error)));
    throw new WaybillError('unreachable', `${target.origin}: ${reason}`, {
      hint: 'start the receiver or correct the URL; set NODE_EXTRA_CA_CERTS for a private certificate authority',
      cause: error,
    });
  }
}

const maxDiscardedBytes = 64 * 1024;

function discard(response: IncomingMessage, clock: Clock, withinMs: number): void {
  let read = 0;
  const timer = clock.timeout(withinMs, () => response.destroy());
  response
    .on('close', () => timer.cancel())
    .on('data', (chunk: Buffer) => {
      read += chunk.byteLength;
      if (read > maxDiscardedBytes) response.destroy();
    })
    .on('error', () => undefined);
}

/**
 * Decides what a response status means, according to Standard Webhooks. Messages contain only the origin of
 * the URL, since the path and query may be secret.
 */
function interpretResponse(
  { statusCode = 0, headers }: IncomingMessage,
  { origin }: URL,
  clock: Clock,
): SendResult {
  if (statusCode >= 200 && statusCode < 300) return { ok: true };
  const reason = `${origin} answered ${statusCode}`;
  if (statusCode >= 300 && statusCode < 400)
    return {
      ok: false,
      reason: `${reason}, a redirect${redirectedTo(headers.location, origin)}, which is not followed`,
      retry: false,
    };
  if (statusCode === 410)
    return { ok: false, reason: `${reason}: the receiver is gone`, retry: false, gone: true };
  const retry = statusCode === 408 || statusCode === 429 || statusCode >= 500;
  const retryAfterMs = retry ? parseRetryAfter(headers['retry-after'], clock.now()) : undefined;
  return { ok: false, reason, retry, retryAfterMs };
}

function redirectedTo(location: string | undefined, origin: string): string {
  if (location === undefined || !URL.canParse(location, origin)) return '';
  return ` to ${new URL(location, origin).origin}`;
}

function connectionFailure(error: Error): SinkRefusal {
  if (error instanceof AddressError)
    return {
      ok: false,
      reason: `the host of the webhook is ${error.message}, which is refused (allow_addresses can allow it)`,
      retry: false,
    };
  const code = codeOf(error);
  if (certificateFault.test(code))
    return { ok: false, reason: `the receiver's certificate was rejected (${code})`, retry: false };
  return { ok: false, reason: `the receiver cannot be reached (${code})`, retry: true };
}
