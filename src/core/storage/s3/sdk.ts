import http from 'node:http';
import https from 'node:https';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type PutObjectCommand, S3Client, type UploadPartCommand } from '@aws-sdk/client-s3';
import { SignatureV4 } from '@smithy/signature-v4';
import type { Clock } from '../../lib/clock.ts';
import { WaybillError } from '../../lib/errors.ts';
import { onAbort } from '../../lib/on-abort.ts';
import type { ObjectHeaders } from '../storage.ts';
import { LimitedHandler } from './answer-limit.ts';
import { failureOf, hintWithEndpoint, keyForMessage, s3Error, type S3Place } from './s3-errors.ts';
import type { S3Location } from './s3-location.ts';

/*
 * Adapts the AWS SDK to waybill: how it is configured, how long requests may take, what their errors mean,
 * and in which format it wants its input.
 */

/** More than twice the number of files written at once, which leaves room for parts and reads. */
const maxSockets = 160;
const connectTimeoutMs = 10_000;
/** If nothing has been sent or received for this long, the connection is closed. */
const defaultSilenceMs = 60_000;
/** The timeout for a request, not counting the time for its body. */
const answerTimeoutMs = 180_000;
/** The slowest connection that a request tolerates: 16 bytes/ms, or 16 kB/s. */
const minBytesPerMs = 16;

export interface SdkOptions {
  location: S3Location;
  /** If null, the SDK looks for credentials in the usual places. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null;
  /** The maximum idle time of a connection, in milliseconds. Only set in tests. */
  silenceMs?: number;
}

/**
 * Opens the client of the SDK. Calls are only tried once, and connections are kept alive. `onDate` is called
 * with the `date` header of each response, in milliseconds.
 */
export function openSdk(
  { location, credentials, silenceMs = defaultSilenceMs }: SdkOptions,
  onDate: (date: number) => void,
): S3Client {
  const agent = { keepAlive: true, maxSockets };
  const client = withoutWarning(
    () =>
      new S3Client({
        ...(location.endpoint === null ? {} : atEndpoint(location.endpoint)),
        ...(location.region === null ? {} : { region: location.region }),
        ...(credentials === null ? {} : { credentials }),
        forcePathStyle: location.pathStyle,
        maxAttempts: 1,
        expectContinueHeader: false,
        requestHandler: new LimitedHandler({
          httpAgent: new http.Agent(agent),
          httpsAgent: new https.Agent(agent),
          connectionTimeout: connectTimeoutMs,
          socketTimeout: silenceMs,
        }),
      }),
  );
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const { headers } = result.response as { headers: Record<string, string> };
      const date = Date.parse(headers['date'] ?? '');
      if (!Number.isNaN(date)) onDate(date);
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'waybillClock' },
  );
  return client;
}

/**
 * Turns off the checksums that the SDK adds by default. Servers that do not support them answer with 501, and
 * bodies are protected by the signed SHA-256 anyway.
 */
function atEndpoint(endpoint: string): {
  endpoint: string;
  region: () => Promise<string>;
  requestChecksumCalculation: 'WHEN_REQUIRED';
  responseChecksumValidation: 'WHEN_REQUIRED';
} {
  return {
    endpoint,
    region: configuredRegion(),
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  };
}

/**
 * Returns the region that the SDK is configured for, and us-east-1 if there is none. Apart from AWS, most
 * servers only have one region, and it does not matter what you call it.
 */
function configuredRegion(): () => Promise<string> {
  let region: Promise<string> | undefined;
  // Remember the result, because the SDK calls this for every request.
  return () => (region ??= new S3Client({}).config.region().catch(() => 'us-east-1'));
}

/**
 * Suppresses the warning that future releases of the SDK will need a newer Node.js. Users can ignore it,
 * because waybill pins the release it uses.
 */
function withoutWarning<T>(construct: () => T): T {
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => undefined;
  try {
    return construct();
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * Makes a command use a SHA-256 that is already known (in hexadecimal), so that the body is not hashed a
 * second time. With `UNSIGNED-PAYLOAD`, the body is not signed at all. This has to be set on the command
 * itself, because its input is copied before it gets signed.
 */
export function useDigest(command: PutObjectCommand | UploadPartCommand, sha256: string): void {
  const stack = command.middlewareStack as S3Client['middlewareStack'];
  stack.add(
    (next) => async (args) => {
      (args.request as { headers: Record<string, string> }).headers['x-amz-content-sha256'] = sha256;
      return next(args);
    },
    { step: 'build', name: 'waybillPayloadHash' },
  );
}

/** Stores an object in a single request. `input` has the fields of `PutObjectCommand`. Returns the ETag. */
export type DirectPut = (
  key: string,
  bytes: Uint8Array,
  sha256: string,
  input: PutHeaders,
  abortSignal: AbortSignal,
) => Promise<string | undefined>;

/**
 * Sends PUT requests with nothing but the SDK's signer and HTTP handler. Without its middleware, thousands of
 * small files take only half the CPU time (docs/decisions/010-s3-direct-puts.md). Errors look the same as the
 * SDK's.
 */
export function directPut(sdk: S3Client, { bucket, pathStyle }: S3Location, endpoint: URL): DirectPut {
  const { config } = sdk;
  const { region, credentials, sha256: hash } = config;
  const signer = new SignatureV4({ service: 's3', region, credentials, sha256: hash, uriEscapePath: false });
  const host = pathStyle ? endpoint.host : `${bucket}.${endpoint.host}`;
  const base = endpoint.pathname.replace(/\/$/, '') + (pathStyle ? `/${bucket}` : '');
  const place = {
    method: 'PUT',
    protocol: endpoint.protocol,
    hostname: pathStyle ? endpoint.hostname : `${bucket}.${endpoint.hostname}`,
    port: endpoint.port === '' ? undefined : Number(endpoint.port),
    query: {},
  };
  return async (key, bytes, sha256, { ContentType, CacheControl, IfNoneMatch, IfMatch }, abortSignal) => {
    const headers: Record<string, string> = {
      host,
      'content-length': `${bytes.byteLength}`,
      'content-type': ContentType ?? 'application/octet-stream',
      'x-amz-content-sha256': sha256,
      [`x-amz-meta-${digestMetadata}`]: sha256,
    };
    if (CacheControl !== undefined) headers['cache-control'] = CacheControl;
    if (IfNoneMatch !== undefined) headers['if-none-match'] = IfNoneMatch;
    if (IfMatch !== undefined) headers['if-match'] = IfMatch;
    const request = { ...place, path: `${base}/${escapePath(key)}`, headers, body: bytes };
    const signingDate = new Date(Date.now() + config.systemClockOffset);
    const signed = await signer.sign(request, { signingDate });
    // The types do not fit, because the signer and the handler come from different packages.
    const handler = config.requestHandler as LimitedHandler;
    const { response } = await handler.handle(signed as never, { abortSignal });
    const body = response.body as Readable;
    if (response.statusCode >= 200 && response.statusCode <= 299) {
      body.resume();
      return response.headers['etag'];
    }
    const xml = await text(body);
    const element = (name: string): string | undefined =>
      new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
    throw Object.assign(new Error(element('Message') ?? ''), {
      name: element('Code') ?? 'UnknownError',
      $metadata: { httpStatusCode: response.statusCode },
      $response: response,
    });
  };
}

/** Runs individual requests. Errors become `WaybillError`s that mention the key. */
export class S3Requests {
  readonly #place: S3Place;
  readonly #clock: Clock;

  constructor(place: S3Place, clock: Clock) {
    this.#place = place;
    this.#clock = clock;
  }

  /**
   * Runs a request. The larger its body, the longer it may take. If `signal` aborts first, throws its reason.
   */
  async run<T>(
    key: string,
    send: (abortSignal: AbortSignal) => Promise<T>,
    { bodyBytes = 0, signal }: { bodyBytes?: number; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    signal?.throwIfAborted();
    const requestAbort = new AbortController();
    const release = signal && onAbort(signal, () => requestAbort.abort(signal.reason));
    const timeoutMs = answerTimeoutMs + bodyBytes / minBytesPerMs;
    const deadline = this.#clock.timeout(timeoutMs, () => requestAbort.abort(this.#timeout(key, timeoutMs)));
    const stopped = new Promise<never>((_, reject) => {
      onAbort(requestAbort.signal, () => reject(requestAbort.signal.reason as Error));
    });
    try {
      // The HTTP handler does not reject until the whole body has been sent.
      return await Promise.race([send(requestAbort.signal), stopped]);
    } catch (error) {
      throw requestAbort.signal.aborted ? requestAbort.signal.reason : this.#failure(key, error);
    } finally {
      deadline.cancel();
      release?.();
    }
  }

  /** Yields the chunks of a response. If the connection breaks, fails in the same way as a request. */
  async *chunksOf(key: string, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      throw this.#failure(key, error, ', in the middle of the object');
    }
  }

  /** Creates the error for a response to a request for `key` that makes no sense (`storage_permanent`). */
  unusableAnswer(key: string, what: string, hint?: string): WaybillError {
    const { label } = this.#place;
    return new WaybillError(
      'storage_permanent',
      `${label}${keyForMessage(this.#place, key)}: the server answered with ${what}`,
      { hint: hint === undefined ? undefined : hintWithEndpoint(this.#place, hint) },
    );
  }

  #failure(key: string, error: unknown, step = ''): WaybillError {
    if (error instanceof WaybillError) return error;
    return s3Error(this.#place, keyForMessage(this.#place, key) + step, failureOf(error), this.#clock.now());
  }

  #timeout(key: string, timeoutMs: number): WaybillError {
    const failure = { name: 'TimeoutError', message: '', status: null, headers: {} };
    const what = `${keyForMessage(this.#place, key)}, after ${Math.round(timeoutMs / 1000)} s`;
    return s3Error(this.#place, what, failure, this.#clock.now());
  }
}

/** The condition for a write. Either the object must not exist, or it must have this version. */
export type Condition = { absent: true } | { version: string; form: VersionForm };

/** The format of the version in `If-Match`: the ETag with its quotes, or without. */
export type VersionForm = 'quoted' | 'unquoted';

/** The metadata for an object's SHA-256 in hexadecimal. The header is `x-amz-meta-waybill-sha256`. */
export const digestMetadata = 'waybill-sha256';

/** The fields of `PutObjectCommand` that end up as headers. */
interface PutHeaders {
  ContentType?: string;
  CacheControl?: string;
  Metadata?: Record<string, string>;
  IfNoneMatch?: string;
  IfMatch?: string;
}

/** Removes the quotes from an ETag. Without them, versions from different responses can be compared. */
export function unquoteEtag(etag: string | undefined): string {
  return (etag ?? '').replace(/^"(.*)"$/, '$1');
}

/** Returns the headers for a write. `sha256` is null if it is not known yet. */
export function headersOf({ contentType, cacheControl }: ObjectHeaders, sha256: string | null): PutHeaders {
  const Metadata = sha256 === null ? undefined : { [digestMetadata]: sha256 };
  return { ContentType: contentType, CacheControl: cacheControl, Metadata };
}

export function conditionOf(condition: Condition | undefined): Pick<PutHeaders, 'IfNoneMatch' | 'IfMatch'> {
  if (condition === undefined) return {};
  if ('absent' in condition) return { IfNoneMatch: '*' };
  return { IfMatch: condition.form === 'quoted' ? `"${condition.version}"` : condition.version };
}

/** Returns the source for a copy. The SDK expects it to be escaped already. */
export function copySource(bucket: string, { key, version }: { key: string; version?: string }): string {
  const suffix = version === undefined ? '' : `?versionId=${encodeURIComponent(version)}`;
  return `${bucket}/${escapePath(key)}${suffix}`;
}

/** Escapes everything but slashes and unreserved characters (RFC 3986, 2.3), as signatures require. */
function escapePath(key: string): string {
  return encodeURIComponent(key)
    .replaceAll('%2F', '/')
    .replaceAll(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}
