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
import { failureOf, hintAt, namedKey, s3Error, type S3Place } from './errors.ts';
import type { S3Location } from './location.ts';

/*
 * Adapts the AWS SDK to waybill: its configuration, each request's deadline and errors, and the format of its
 * inputs.
 */

/** More than twice the maximum number of concurrent files, to leave room for parts and concurrent reads. */
const maxSockets = 160;
const connectTimeoutMs = 10_000;
/** A connection is closed after no byte has been sent or received for this long. */
const defaultSilenceMs = 60_000;
/** The maximum duration of a request, not counting its body. */
const answerTimeoutMs = 180_000;
/** The slowest connection for which a request waits: 16 bytes/ms, or 16 kB/s. */
const minBytesPerMs = 16;

export interface SdkOptions {
  location: S3Location;
  /** If null, the SDK's default credential chain is used. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null;
  /** Maximum idle time of a connection, in milliseconds. Set in tests only. */
  silenceMs?: number;
}

/**
 * Opens the SDK's client with one attempt per call and keep-alive connections. `onDate` receives the `date`
 * header of each response, in milliseconds.
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
 * Disables the SDK's default checksums, because servers that do not support them respond with 501. The signed
 * SHA-256 protects bodies anyway.
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
 * Returns the region from the SDK's own configuration, or else us-east-1. Most servers other than AWS have a
 * single region and accept any name for it.
 */
function configuredRegion(): () => Promise<string> {
  let region: Promise<string> | undefined;
  // Cached because the SDK calls this for each request.
  return () => (region ??= new S3Client({}).config.region().catch(() => 'us-east-1'));
}

/**
 * Suppresses the SDK's warning about the Node.js versions that future releases will require. The release in
 * use is pinned, so the warning does not help waybill users.
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
 * Makes a command sign its body with a known SHA-256 (in hexadecimal) instead of hashing the body again.
 * `UNSIGNED-PAYLOAD` leaves the body unsigned. This is set on the command because its input is copied before
 * it is signed.
 */
export function signAs(command: PutObjectCommand | UploadPartCommand, sha256: string): void {
  const stack = command.middlewareStack as S3Client['middlewareStack'];
  stack.add(
    (next) => async (args) => {
      (args.request as { headers: Record<string, string> }).headers['x-amz-content-sha256'] = sha256;
      return next(args);
    },
    { step: 'build', name: 'waybillPayloadHash' },
  );
}

/** Stores an object with one request and returns its ETag. `input` contains fields of `PutObjectCommand`. */
export type DirectPut = (
  key: string,
  bytes: Uint8Array,
  sha256: string,
  input: PutHeaders,
  abortSignal: AbortSignal,
) => Promise<string | undefined>;

/**
 * Sends PUT requests with only the SDK's signer and HTTP handler, bypassing its middleware. This halves the
 * CPU time for thousands of small files (docs/decisions/010-s3-direct-puts.md). Failures look like the SDK's.
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
    // The signer's and the handler's types come from different packages.
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

/** Runs single requests. Failures become `WaybillError`s whose messages name the key. */
export class Requests {
  readonly #place: S3Place;
  readonly #clock: Clock;

  constructor(place: S3Place, clock: Clock) {
    this.#place = place;
    this.#clock = clock;
  }

  /**
   * Runs one request with a deadline that grows with the body. If `signal` aborts first, throws its reason.
   */
  async run<T>(
    key: string,
    send: (abortSignal: AbortSignal) => Promise<T>,
    { bodyBytes = 0, signal }: { bodyBytes?: number; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    signal?.throwIfAborted();
    const ended = new AbortController();
    const release = signal && onAbort(signal, () => ended.abort(signal.reason));
    const timeoutMs = answerTimeoutMs + bodyBytes / minBytesPerMs;
    const deadline = this.#clock.timeout(timeoutMs, () => ended.abort(this.#timeout(key, timeoutMs)));
    const stopped = new Promise<never>((_, reject) => {
      onAbort(ended.signal, () => reject(ended.signal.reason as Error));
    });
    try {
      // The HTTP handler rejects only after the body has been sent.
      return await Promise.race([send(ended.signal), stopped]);
    } catch (error) {
      throw ended.signal.aborted ? ended.signal.reason : this.#failure(key, error);
    } finally {
      deadline.cancel();
      release?.();
    }
  }

  /** Yields the chunks of a response. If the connection breaks in the meantime, fails like a request. */
  async *chunksOf(key: string, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      throw this.#failure(key, error, ', in the middle of the object');
    }
  }

  /** `storage_permanent`: the response to a request for `key` cannot be used. */
  unusableAnswer(key: string, what: string, hint?: string): WaybillError {
    const { label } = this.#place;
    return new WaybillError(
      'storage_permanent',
      `${label}: ${namedKey(this.#place, key)}: the server answered with ${what}`,
      { hint: hint === undefined ? undefined : hintAt(this.#place, hint) },
    );
  }

  #failure(key: string, error: unknown, step = ''): WaybillError {
    if (error instanceof WaybillError) return error;
    return s3Error(this.#place, namedKey(this.#place, key) + step, failureOf(error), this.#clock.now());
  }

  #timeout(key: string, timeoutMs: number): WaybillError {
    const failure = { name: 'TimeoutError', message: '', status: null, headers: {} };
    const what = `${namedKey(this.#place, key)}, after ${Math.round(timeoutMs / 1000)} s`;
    return s3Error(this.#place, what, failure, this.#clock.now());
  }
}

/** A write condition: either there is no such object, or the object has this version. */
export type Condition = { absent: true } | { version: string; form: VersionForm };

/** How a server compares the version in `If-Match`: with or without the ETag's quotes. */
export type VersionForm = 'quoted' | 'unquoted';

/** The metadata entry that holds an object's SHA-256 in hexadecimal: `x-amz-meta-waybill-sha256`. */
export const digestMetadata = 'waybill-sha256';

/** Fields of `PutObjectCommand` that become headers. */
interface PutHeaders {
  ContentType?: string;
  CacheControl?: string;
  Metadata?: Record<string, string>;
  IfNoneMatch?: string;
  IfMatch?: string;
}

/**
 * Returns the function that decodes listed names. Names are requested in URL encoding, because XML cannot
 * represent all of them. A server that does not support that sends them unencoded.
 */
export function nameDecoder(encodingType: string | undefined): (name: string | undefined) => string {
  if (encodingType !== 'url') return (name = '') => name;
  return (name = '') => decodeURIComponent(name.replaceAll('+', ' '));
}

/** Removes the quotes of an ETag, so that versions from different responses compare equal. */
export function unquoted(etag: string | undefined): string {
  return (etag ?? '').replace(/^"(.*)"$/, '$1');
}

/** Returns the headers of a write. `sha256` is null if it is not known in advance. */
export function headersOf({ contentType, cacheControl }: ObjectHeaders, sha256: string | null): PutHeaders {
  const Metadata = sha256 === null ? undefined : { [digestMetadata]: sha256 };
  return { ContentType: contentType, CacheControl: cacheControl, Metadata };
}

export function conditionOf(condition: Condition | undefined): Pick<PutHeaders, 'IfNoneMatch' | 'IfMatch'> {
  if (condition === undefined) return {};
  if ('absent' in condition) return { IfNoneMatch: '*' };
  return { IfMatch: condition.form === 'quoted' ? `"${condition.version}"` : condition.version };
}

/** Formats the source of a copy. The SDK leaves escaping to the caller. */
export function copySource(bucket: string, { key, version }: { key: string; version?: string }): string {
  const suffix = version === undefined ? '' : `?versionId=${encodeURIComponent(version)}`;
  return `${bucket}/${escapePath(key)}${suffix}`;
}

/**
 * Escapes everything except slashes and unreserved characters (RFC 3986, section 2.3), as signatures require.
 */
function escapePath(key: string): string {
  return encodeURIComponent(key)
    .replaceAll('%2F', '/')
    .replaceAll(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}
