import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { hasCode } from '../../../lib/errors.ts';
import { answerName, otherServer, type S3Place } from '../errors.ts';
import type { S3Wire } from '../wire.ts';
import { ignoring, s3Calls } from './calls.ts';
import { conditionOf, copySource, headersOf, plainHeaders, unquoted } from './object-headers.ts';
import { cutShort, decodeListed } from './listings.ts';
import { openSdk, signAs, type SdkOptions } from './sdk.ts';
import { uploadCalls } from './uploads.ts';

export interface S3ClientOptions extends SdkOptions {
  place: S3Place;
}

/** Implements `S3Wire` with the SDK. Connects when the first call is made. */
export function s3Client(options: S3ClientOptions): S3Wire {
  const { location, place, clock } = options;
  const { client, clockOffsetMs, direct } = openSdk(options);
  const Bucket = location.bucket;
  const calls = s3Calls(place, clock);
  const { call } = calls;

  return {
    isEncrypted: location.endpoint?.startsWith('https:') ?? false,
    clockOffsetMs,
    ...uploadCalls(client, Bucket, calls),

    async put(key, bytes, { sha256, headers, condition, signal }) {
      const send = async (abortSignal: AbortSignal): Promise<string | undefined> => {
        if (direct !== null) {
          const content = { bytes, sha256, headers: plainHeaders(headers, sha256, condition) };
          const answer = await direct('PUT', key, abortSignal, content);
          answer.body.resume();
          return answer.headers['etag'];
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
      };
      return unquoted(await call(key, send, { bodyBytes: bytes.byteLength, signal }));
    },

    async get(key) {
      const body = await call(key, async (abortSignal) =>
        direct === null
          ? (await client.send(new GetObjectCommand({ Bucket, Key: key }), { abortSignal })).Body
          : (await direct('GET', key, abortSignal)).body,
      );
      return calls.chunksOf(key, body as AsyncIterable<Uint8Array>);
    },

    async head(key, storedVersion) {
      const input = {
        Bucket,
        Key: key,
        ...(storedVersion === undefined ? {} : { VersionId: storedVersion }),
      };
      try {
        const { ContentLength, ETag, LastModified, VersionId } = await call(key, (abortSignal) =>
          client.send(new HeadObjectCommand(input), { abortSignal }),
        );
        return {
          size: ContentLength ?? 0,
          version: unquoted(ETag),
          modifiedAt: LastModified ?? null,
          storedVersion: VersionId ?? null,
        };
      } catch (error) {
        // An answer to HEAD has no body, and so no error code: 404 is all it can say.
        if (hasCode(error, 'storage_not_found') || answerName(error) === 'NotFound') return undefined;
        throw error;
      }
    },

    async copy(from, to) {
      const CopySource = copySource(Bucket, from);
      try {
        await call(to, (abortSignal) =>
          client.send(new CopyObjectCommand({ Bucket, Key: to, CopySource }), { abortSignal }),
        );
        return true;
      } catch (error) {
        if (hasCode(error, 'storage_not_found') || answerName(error) === 'NoSuchVersion') return false;
        throw error;
      }
    },

    async list({ prefix, oneLevel, token, pageSize }) {
      const input = {
        Bucket,
        Prefix: prefix,
        EncodingType: 'url' as const,
        ...(oneLevel ? { Delimiter: '/' } : {}),
        ...(token === null ? {} : { ContinuationToken: token }),
        ...(pageSize === null ? {} : { MaxKeys: pageSize }),
      };
      const page = await call(prefix, (abortSignal) =>
        client.send(new ListObjectsV2Command(input), { abortSignal }),
      );
      // The SDK parses any XML, and even HTML, as an empty listing.
      if (page.IsTruncated === undefined)
        throw calls.unusableAnswer(prefix, 'something that is not a listing', otherServer);
      const next = page.NextContinuationToken ?? '';
      if (page.IsTruncated && (next === '' || next === token)) throw cutShort(calls, prefix);
      const name = decodeListed(page.EncodingType);
      return {
        objects: (page.Contents ?? []).map(({ Key, Size, ETag, LastModified }) => ({
          key: name(Key),
          size: Size ?? 0,
          version: ETag ?? null,
          modifiedAt: LastModified ?? null,
        })),
        prefixes: (page.CommonPrefixes ?? []).map(({ Prefix }) => name(Prefix)),
        next: page.IsTruncated ? next : null,
      };
    },

    async remove(key) {
      await ignoring('NoSuchKey', () =>
        call(key, async (abortSignal) => {
          if (direct === null)
            await client.send(new DeleteObjectCommand({ Bucket, Key: key }), { abortSignal });
          else (await direct('DELETE', key, abortSignal)).body.resume();
        }),
      );
    },

    async removeVersion(key, condition) {
      const command = new DeleteObjectCommand({ Bucket, Key: key, ...conditionOf(condition) });
      await call(key, async (abortSignal) => client.send(command, { abortSignal }));
    },

    close() {
      client.destroy();
    },
  };
}
