import http from 'node:http';
import https from 'node:https';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import type { Clock } from '../clock.ts';
import type { S3Location } from '../config/config.ts';
import { hasCode, WaybillError } from '../errors.ts';
import type { Condition } from './s3-conditions.ts';
import { answerName, otherServer, s3Error, type S3Failure, type S3Place } from './s3-errors.ts';
import { decodeListed, headersOf, ifMatch, unquoted } from './s3-forms.ts';
import type { S3Wire, Upload } from './s3-wire.ts';

/** More than twice the most files that are written side by side, for their parts and for what is read meanwhile. */
const mostSockets = 160;
const connectWithinMs = 10_000;
/** Without a byte for this long a connection is given up. */
const silenceMs = 120_000;
/** A call may take this long, and longer by its body at the pace of the slowest line that is worth waiting for. */
const answerWithinMs = 180_000;
const slowestBytesPerMs = 16;

export interface S3ClientOptions {
  location: S3Location;
  place: S3Place;
  /** Null: the default chain of the SDK, as it is. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null;
  clock: Clock;
}

/** The SDK, as `S3Wire`. The only file that knows it. */
export function s3Client({ location, place, credentials, clock }: S3ClientOptions): S3Wire {
  const agent = { keepAlive: true, maxSockets: mostSockets };
  const requestHandler = new NodeHttpHandler({
    httpAgent: new http.Agent(agent),
    httpsAgent: new https.Agent(agent),
    connectionTimeout: connectWithinMs,
    socketTimeout: silenceMs,
  });
  const client = withoutWarning(
    () =>
      new S3Client({
        ...(location.endpoint === null ? {} : atEndpoint(location.endpoint)),
        ...(location.region === null ? {} : { region: location.region }),
        ...(credentials === null ? {} : { credentials }),
        forcePathStyle: location.pathStyle,
        maxAttempts: 1,
        expectContinueHeader: false,
        requestHandler,
      }),
  );
  const Bucket = location.bucket;
  const signedHashes = new WeakMap<object, string>();
  let clockOffsetMs: number | null = null;

  client.middlewareStack.add(
    (next) => async (args) => {
      const hash = signedHashes.get(args.input);
      const request = args.request as { headers: Record<string, string> };
      if (hash !== undefined) request.headers['x-amz-content-sha256'] = hash;
      return next(args);
    },
    { step: 'build', name: 'waybillPayloadHash' },
  );
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const { headers } = result.response as { headers: Record<string, string> };
      const date = Date.parse(headers['date'] ?? '');
      if (!Number.isNaN(date)) clockOffsetMs = date - clock.now().getTime();
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'waybillClock' },
  );

  return {
    isEncrypted: location.endpoint === null || location.endpoint.startsWith('https:'),
    clockOffsetMs: () => clockOffsetMs,

    async put(key, bytes, { sha256, headers, condition, signal }) {
      const input = {
        Bucket,
        Key: key,
        Body: bytes,
        ContentLength: bytes.byteLength,
        ...headersOf(headers, sha256),
        ...conditionOf(condition),
      };
      signedHashes.set(input, sha256);
      const { ETag } = await call(key, bytes.byteLength, signal, (abortSignal) =>
        client.send(new PutObjectCommand(input), { abortSignal }),
      );
      return unquoted(ETag);
    },

    async get(key) {
      const { Body } = await call(key, 0, undefined, (abortSignal) =>
        client.send(new GetObjectCommand({ Bucket, Key: key }), { abortSignal }),
      );
      return chunksOf(key, Body as AsyncIterable<Uint8Array>);
    },

    async head(key) {
      try {
        const { ContentLength, ETag, LastModified } = await call(key, 0, undefined, (abortSignal) =>
          client.send(new HeadObjectCommand({ Bucket, Key: key }), { abortSignal }),
        );
        return { size: ContentLength ?? 0, version: unquoted(ETag), modifiedAt: LastModified ?? null };
      } catch (error) {
        // The answer to HEAD has no body, and so no code: 404 is all that it can say.
        if (hasCode(error, 'storage_not_found') || answerName(error) === 'NotFound') return undefined;
        throw error;
      }
    },

    async list({ prefix, oneLevel, token, pageSize }) {
      const page = await call(prefix, 0, undefined, (abortSignal) =>
        client.send(
          new ListObjectsV2Command({
            Bucket,
            Prefix: prefix,
            EncodingType: 'url',
            ...(oneLevel ? { Delimiter: '/' } : {}),
            ...(token === null ? {} : { ContinuationToken: token }),
            ...(pageSize === null ? {} : { MaxKeys: pageSize }),
          }),
          { abortSignal },
        ),
      );
      if (page.IsTruncated === undefined) throw noListing(prefix);
      const next = page.NextContinuationToken ?? '';
      if (page.IsTruncated && (next === '' || next === token)) throw cutShort(prefix);
      const name = decodeListed(page.EncodingType);
      return {
        objects: (page.Contents ?? []).map(({ Key, Size, LastModified }) => ({
          key: name(Key),
          size: Size ?? 0,
          modifiedAt: LastModified ?? null,
        })),
        prefixes: (page.CommonPrefixes ?? []).map(({ Prefix }) => name(Prefix)),
        next: page.IsTruncated ? next : null,
      };
    },

    async remove(key) {
      await unlessGone('NoSuchKey', () =>
        call(key, 0, undefined, (abortSignal) =>
          client.send(new DeleteObjectCommand({ Bucket, Key: key }), { abortSignal }),
        ),
      );
    },

    async beginUpload(key, { sha256, headers }) {
      const { UploadId } = await call(key, 0, undefined, (abortSignal) =>
        client.send(new CreateMultipartUploadCommand({ Bucket, Key: key, ...headersOf(headers, sha256) }), {
          abortSignal,
        }),
      );
      if (UploadId === undefined) throw nameless(key, 'a multipart upload without an id');
      return UploadId;
    },

    async putPart({ key, uploadId: UploadId, number: PartNumber }, bytes, { sha256, signal }) {
      const input = { Bucket, Key: key, UploadId, PartNumber, Body: bytes, ContentLength: bytes.byteLength };
      signedHashes.set(input, sha256 ?? 'UNSIGNED-PAYLOAD');
      const { ETag } = await call(key, bytes.byteLength, signal, (abortSignal) =>
        client.send(new UploadPartCommand(input), { abortSignal }),
      );
      if (ETag === undefined) throw nameless(key, 'a part without an ETag');
      return ETag;
    },

    async completeUpload({ key, uploadId: UploadId }, etags) {
      const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
      const { ETag } = await call(key, 0, undefined, (abortSignal) =>
        client.send(
          new CompleteMultipartUploadCommand({ Bucket, Key: key, UploadId, MultipartUpload: { Parts } }),
          { abortSignal },
        ),
      );
      return unquoted(ETag);
    },

    async abortUpload({ key, uploadId: UploadId }) {
      await unlessGone('NoSuchUpload', () =>
        call(key, 0, undefined, (abortSignal) =>
          client.send(new AbortMultipartUploadCommand({ Bucket, Key: key, UploadId }), { abortSignal }),
        ),
      );
    },

    async unfinishedUploads(prefix) {
      const uploads: Upload[] = [];
      for (let from: { KeyMarker?: string; UploadIdMarker?: string } | null = {}; from !== null;) {
        const marker: { KeyMarker?: string; UploadIdMarker?: string } = from;
        const page = await call(prefix, 0, undefined, (abortSignal) =>
          client.send(
            new ListMultipartUploadsCommand({ Bucket, Prefix: prefix, EncodingType: 'url', ...marker }),
            { abortSignal },
          ),
        );
        const name = decodeListed(page.EncodingType);
        for (const { Key, UploadId } of page.Uploads ?? [])
          if (UploadId !== undefined) uploads.push({ key: name(Key), uploadId: UploadId });
        const KeyMarker = name(page.NextKeyMarker);
        const UploadIdMarker = page.NextUploadIdMarker ?? '';
        from = page.IsTruncated === true ? { KeyMarker, UploadIdMarker } : null;
        if (from !== null && KeyMarker === marker.KeyMarker && UploadIdMarker === marker.UploadIdMarker)
          throw cutShort(prefix);
      }
      return uploads;
    },

    close() {
      client.destroy();
    },
  };

  /** One call with its deadline. `signal` stops it early, and its reason is then what the call fails with. */
  async function call<T>(
    key: string,
    bodyBytes: number,
    signal: AbortSignal | undefined,
    send: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const ended = new AbortController();
    const stop = (): void => ended.abort(signal?.reason);
    signal?.addEventListener('abort', stop, { once: true });
    const withinMs = answerWithinMs + bodyBytes / slowestBytesPerMs;
    const timer = setTimeout(() => ended.abort(noAnswer(key, withinMs)), withinMs);
    try {
      return await send(ended.signal);
    } catch (error) {
      throw ended.signal.aborted ? ended.signal.reason : failed(key, error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }

  async function* chunksOf(key: string, body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      throw failed(key, error);
    }
  }

  function failed(key: string, error: unknown): WaybillError {
    if (error instanceof WaybillError) return error;
    return s3Error(place, JSON.stringify(key), failureOf(error), clock.now());
  }

  function noAnswer(key: string, withinMs: number): WaybillError {
    const failure = { name: 'TimeoutError', message: '', status: null, headers: {} };
    return s3Error(place, `"${key}", after ${Math.round(withinMs / 1000)} s`, failure, clock.now());
  }

  function cutShort(prefix: string): WaybillError {
    return new WaybillError(
      'storage_permanent',
      `${place.label}: the server cut the listing of "${prefix}" short and does not tell how to go on`,
      { hint: 'a part of a listing is never taken for all of it; this is a defect of the server' },
    );
  }

  /** The SDK reads any XML, and HTML too, as a listing of nothing. */
  function noListing(prefix: string): WaybillError {
    return new WaybillError(
      'storage_permanent',
      `${place.label}: the server answered the listing of "${prefix}" with something that is no listing`,
      { hint: otherServer },
    );
  }

  function nameless(key: string, what: string): WaybillError {
    return new WaybillError(
      'storage_permanent',
      `${place.label}: "${key}": the server answered with ${what}`,
    );
  }
}

/** Servers older than the SDK's default checksums answer 501 to them. Bodies are guarded by their signed SHA-256. */
function atEndpoint(endpoint: string): {
  endpoint: string;
  region: () => Promise<string>;
  requestChecksumCalculation: 'WHEN_REQUIRED';
  responseChecksumValidation: 'WHEN_REQUIRED';
} {
  return {
    endpoint,
    region: regionOfChain(),
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  };
}

/** The region of the SDK's own configuration; most servers that are not AWS have one region and do not care for its name. */
function regionOfChain(): () => Promise<string> {
  let region: Promise<string> | undefined;
  // Asked for with every request.
  return () => (region ??= new S3Client({}).config.region().catch(() => 'us-east-1'));
}

/** The SDK announces on standard error which versions of Node its future releases need; the release in use is pinned. */
function withoutWarning<T>(construct: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return construct();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function conditionOf(condition: Condition | undefined): { IfNoneMatch?: string; IfMatch?: string } {
  if (condition === undefined) return {};
  return 'absent' in condition ? { IfNoneMatch: '*' } : { IfMatch: ifMatch(condition) };
}

async function unlessGone(name: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (answerName(error) !== name) throw error;
  }
}

/** Errors of the SDK, of the network and of Node, in one shape. */
function failureOf(thrown: unknown): S3Failure {
  const error = thrown as {
    name?: string;
    code?: unknown;
    message?: string;
    $metadata?: { httpStatusCode?: number };
    $response?: { statusCode?: number; headers?: Record<string, string> };
  };
  const name = error.name ?? 'Error';
  const isPlain = name === 'Error' || name === 'AggregateError' || name === 'TypeError';
  return {
    name: isPlain && typeof error.code === 'string' ? error.code : name,
    message: error.message ?? '',
    status: error.$metadata?.httpStatusCode ?? error.$response?.statusCode ?? null,
    headers: error.$response?.headers ?? {},
  };
}
