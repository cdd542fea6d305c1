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
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { hasCode, WaybillError } from '../../errors.ts';
import { answerName, failureOf, otherServer, s3Error, type S3Place } from './errors.ts';
import { conditionOf, decodeListed, headersOf, plainHeaders, unquoted } from './object-headers.ts';
import { openSdk, signAs, type SdkOptions } from './sdk.ts';
import type { S3Wire, Upload } from './wire.ts';

/**
 * A call may take this long, and longer by its body at the pace of the slowest line that is worth waiting
 * for.
 */
const answerWithinMs = 180_000;
const slowestBytesPerMs = 16;

export interface S3ClientOptions extends SdkOptions {
  place: S3Place;
}

/** The SDK, as `S3Wire`. */
export function s3Client(options: S3ClientOptions): S3Wire {
  const { location, place, clock } = options;
  const { client, clockOffsetMs, direct } = openSdk(options);
  const Bucket = location.bucket;

  return {
    isEncrypted: location.endpoint?.startsWith('https:') ?? false,
    clockOffsetMs,

    async put(key, bytes, { sha256, headers, condition, signal }) {
      const etag = await call(key, bytes.byteLength, signal, async (abortSignal) => {
        if (direct !== null) {
          const content = { bytes, sha256, headers: plainHeaders(headers, sha256, condition) };
          const { headers: answered, body } = await direct('PUT', key, abortSignal, content);
          body.resume();
          return answered['etag'];
        }
        const input = {
          Bucket,
          Key: key,
          Body: bytes,
          ContentLength: bytes.byteLength,
          ...headersOf(headers, sha256),
          ...conditionOf(condition),
        };
        const command = new PutObjectCommand(input);
        signAs(command, sha256);
        return (await client.send(command, { abortSignal })).ETag;
      });
      return unquoted(etag);
    },

    async get(key) {
      const body = await call(key, 0, undefined, async (abortSignal) =>
        direct === null
          ? (await client.send(new GetObjectCommand({ Bucket, Key: key }), { abortSignal })).Body
          : (await direct('GET', key, abortSignal)).body,
      );
      return chunksOf(key, body as AsyncIterable<Uint8Array>);
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
        call(key, 0, undefined, async (abortSignal) => {
          if (direct === null)
            await client.send(new DeleteObjectCommand({ Bucket, Key: key }), { abortSignal });
          else (await direct('DELETE', key, abortSignal)).body.resume();
        }),
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
      const { ETag } = await call(key, bytes.byteLength, signal, async (abortSignal) => {
        const command = new UploadPartCommand(input);
        signAs(command, sha256 ?? 'UNSIGNED-PAYLOAD');
        return client.send(command, { abortSignal });
      });
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

async function unlessGone(name: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (answerName(error) !== name) throw error;
  }
}
