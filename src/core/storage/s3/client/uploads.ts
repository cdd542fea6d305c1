import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  UploadPartCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import type { S3Wire, Upload } from '../wire.ts';
import { ignoring, type S3Calls } from './calls.ts';
import { cutShort, decodeListed } from './listings.ts';
import { headersOf, unquoted } from './object-headers.ts';
import { signAs } from './sdk.ts';

type UploadCalls = Pick<
  S3Wire,
  'beginUpload' | 'putPart' | 'completeUpload' | 'abortUpload' | 'unfinishedUploads'
>;

/** The multipart uploads of `S3Wire`. */
export function uploadCalls(client: S3Client, Bucket: string, calls: S3Calls): UploadCalls {
  const { call, unusableAnswer } = calls;
  return {
    async beginUpload(key, { sha256, headers }) {
      const input = { Bucket, Key: key, ...headersOf(headers, sha256) };
      const { UploadId } = await call(key, (abortSignal) =>
        client.send(new CreateMultipartUploadCommand(input), { abortSignal }),
      );
      if (UploadId === undefined) throw unusableAnswer(key, 'a multipart upload without an id');
      return UploadId;
    },

    async putPart({ key, uploadId: UploadId, number: PartNumber }, bytes, { sha256, signal }) {
      const input = { Bucket, Key: key, UploadId, PartNumber, Body: bytes, ContentLength: bytes.byteLength };
      const send = async (abortSignal: AbortSignal): Promise<{ ETag?: string | undefined }> => {
        const command = new UploadPartCommand(input);
        signAs(command, sha256 ?? 'UNSIGNED-PAYLOAD');
        return client.send(command, { abortSignal });
      };
      const { ETag } = await call(key, send, { bodyBytes: bytes.byteLength, signal });
      if (ETag === undefined) throw unusableAnswer(key, 'a part without an ETag');
      return ETag;
    },

    async completeUpload({ key, uploadId: UploadId }, etags) {
      const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
      const input = { Bucket, Key: key, UploadId, MultipartUpload: { Parts } };
      const { ETag } = await call(key, (abortSignal) =>
        client.send(new CompleteMultipartUploadCommand(input), { abortSignal }),
      );
      return unquoted(ETag);
    },

    async abortUpload({ key, uploadId: UploadId }) {
      await ignoring('NoSuchUpload', () =>
        call(key, (abortSignal) =>
          client.send(new AbortMultipartUploadCommand({ Bucket, Key: key, UploadId }), { abortSignal }),
        ),
      );
    },

    async unfinishedUploads(prefix) {
      const uploads: Upload[] = [];
      for (let from: { KeyMarker?: string; UploadIdMarker?: string } | null = {}; from !== null;) {
        const marker: { KeyMarker?: string; UploadIdMarker?: string } = from;
        const input = { Bucket, Prefix: prefix, EncodingType: 'url' as const, ...marker };
        const page = await call(prefix, (abortSignal) =>
          client.send(new ListMultipartUploadsCommand(input), { abortSignal }),
        );
        const name = decodeListed(page.EncodingType);
        for (const { Key, UploadId } of page.Uploads ?? [])
          if (UploadId !== undefined) uploads.push({ key: name(Key), uploadId: UploadId });
        const KeyMarker = name(page.NextKeyMarker);
        const UploadIdMarker = page.NextUploadIdMarker ?? '';
        from = page.IsTruncated === true ? { KeyMarker, UploadIdMarker } : null;
        if (from !== null && KeyMarker === marker.KeyMarker && UploadIdMarker === marker.UploadIdMarker)
          throw cutShort(calls, prefix);
      }
      return uploads;
    },
  };
}
