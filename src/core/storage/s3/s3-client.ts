import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type ServiceInputTypes,
  type ServiceOutputTypes,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import type { Clock } from '../../lib/clock.ts';
import { hasCode } from '../../lib/errors.ts';
import type { ObjectPlace } from '../capabilities.ts';
import type { ObjectHeaders } from '../storage.ts';
import { nameDecoder } from './name-decoder.ts';
import type { CopyFrom, ListPage, ObjectHead, OpenUpload, UploadMarker, UploadPage } from './objects.ts';
import { errorNameOf, wrongServer } from './s3-errors.ts';
import { describeS3 } from './s3-location.ts';
import {
  type Condition,
  conditionOf,
  copySource,
  digestMetadata,
  type DirectPut,
  directPut,
  headersOf,
  openSdk,
  S3Requests,
  type SdkOptions,
  unquoteEtag,
  useDigest,
} from './sdk.ts';

interface BodyOptions {
  /** The SHA-256 of the bytes, in hexadecimal. It is signed, so the server rejects any other bytes. */
  sha256: string;
  signal?: AbortSignal | undefined;
}

/**
 * The calls that waybill makes to a bucket. They use full object keys, have a timeout, and are only tried
 * once. Errors are `WaybillError`s with a `storage_*` code, and `storage_conflict` means that a condition
 * was not met. It does not connect until the first call.
 */
export class BucketClient {
  /** Whether the connection uses TLS. If so, parts are protected in transit and need no extra hash. */
  readonly isEncrypted: boolean;
  readonly #Bucket: string;
  readonly #server: string;
  readonly #sdk: S3Client;
  readonly #requests: S3Requests;
  /**
   * Sends PUT requests without the SDK. null if there is no configured endpoint, in which case the SDK has to
   * find the one for this bucket.
   */
  readonly #directPut: DirectPut | null;
  #clockOffsetMs: number | null = null;

  constructor(options: SdkOptions & { clock: Clock }) {
    const { location, clock } = options;
    const { bucket, endpoint } = location;
    this.isEncrypted = endpoint?.startsWith('https:') ?? false;
    this.#Bucket = bucket;
    this.#server = `s3 ${endpoint ?? 'aws'}`;
    this.#sdk = openSdk(options, (date) => (this.#clockOffsetMs = date - clock.now().getTime()));
    this.#directPut = endpoint === null ? null : directPut(this.#sdk, location, new URL(endpoint));
    this.#requests = new S3Requests({ label: describeS3(location), bucket, endpoint }, clock);
  }

  /**
   * The offset of the server's clock from the local one in milliseconds, according to the latest response.
   * It is positive if the server is ahead, and null before the first response.
   */
  get clockOffsetMs(): number | null {
    return this.#clockOffsetMs;
  }

  /** Returns where an object is, so that other clients of the same server can copy it. */
  placeOf(key: string): ObjectPlace {
    return { server: this.#server, bucket: this.#Bucket, key };
  }

  /** Stores an object and returns its version. */
  async put(
    key: string,
    bytes: Uint8Array,
    options: BodyOptions & { headers: ObjectHeaders; condition?: Condition | undefined },
  ): Promise<string> {
    const { sha256, headers, condition, signal } = options;
    const input = { ...headersOf(headers, sha256), ...conditionOf(condition) };
    const limits = { bodyBytes: bytes.byteLength, signal };
    const direct = this.#directPut;
    if (direct !== null) {
      const send = (abortSignal: AbortSignal): Promise<string | undefined> =>
        direct(key, bytes, sha256, input, abortSignal);
      return unquoteEtag(await this.#requests.run(key, send, limits));
    }
    const command = new PutObjectCommand({
      Bucket: this.#Bucket,
      Key: key,
      Body: bytes,
      ContentLength: bytes.byteLength,
      ...input,
    });
    useDigest(command, sha256);
    const { ETag } = await this.#send(key, command, limits);
    return unquoteEtag(ETag);
  }

  /** Reads an object. Throws `storage_not_found` if it does not exist. */
  async get(key: string): Promise<AsyncIterable<Uint8Array>> {
    const { Body } = await this.#send(key, new GetObjectCommand({ Bucket: this.#Bucket, Key: key }));
    return this.#requests.chunksOf(key, Body as AsyncIterable<Uint8Array>);
  }

  /**
   * Returns the metadata of an object, or of one of its versions. Returns undefined if it does not exist.
   * Reading versions takes an additional permission.
   */
  async head(
    key: string,
    storedVersion?: string,
    Bucket: string = this.#Bucket,
  ): Promise<ObjectHead | undefined> {
    const command = new HeadObjectCommand({ Bucket, Key: key, VersionId: storedVersion });
    try {
      const { ContentLength, ETag, LastModified, VersionId, Metadata } = await this.#send(key, command);
      return {
        size: ContentLength ?? 0,
        version: unquoteEtag(ETag),
        modifiedAt: LastModified ?? null,
        storedVersion: VersionId ?? null,
        sha256: Metadata?.[digestMetadata],
      };
    } catch (error) {
      // Responses to HEAD have no body and therefore no error code, just the status 404.
      if (hasCode(error, 'storage_not_found') || errorNameOf(error) === 'NotFound') return undefined;
      throw error;
    }
  }

  /**
   * Copies an object on the server and overwrites what is at `to`. Headers and metadata are copied as well,
   * unless they are in `replaced`. Returns the version of the copy, or null if the object does not exist.
   */
  async copy(
    from: CopyFrom,
    to: string,
    replaced?: { headers: ObjectHeaders; sha256: string },
  ): Promise<string | null> {
    const { bucket = this.#Bucket, ifMatch } = from;
    const command = new CopyObjectCommand({
      Bucket: this.#Bucket,
      Key: to,
      CopySource: copySource(bucket, from),
      CopySourceIfMatch: ifMatch === undefined ? undefined : `"${ifMatch}"`,
      ...(replaced && { MetadataDirective: 'REPLACE', ...headersOf(replaced.headers, replaced.sha256) }),
    });
    try {
      const { CopyObjectResult } = await this.#send(to, command);
      return unquoteEtag(CopyObjectResult?.ETag);
    } catch (error) {
      if (hasCode(error, 'storage_not_found') || errorNameOf(error) === 'NoSuchVersion') return null;
      throw error;
    }
  }

  /**
   * Returns one page of a listing. With `oneLevel`, objects further down are combined into `prefixes`.
   * `token` is `next` from the previous page, or null for the first one. If `pageSize` is null, the server
   * decides.
   */
  async list(options: {
    prefix: string;
    oneLevel: boolean;
    token: string | null;
    pageSize: number | null;
  }): Promise<ListPage> {
    const { prefix, oneLevel, token, pageSize } = options;
    const command = new ListObjectsV2Command({
      Bucket: this.#Bucket,
      Prefix: prefix,
      EncodingType: 'url',
      Delimiter: oneLevel ? '/' : undefined,
      ContinuationToken: token ?? undefined,
      MaxKeys: pageSize ?? undefined,
    });
    const page = await this.#send(prefix, command);
    // The SDK accepts any XML, even HTML, as an empty listing.
    if (page.IsTruncated === undefined)
      throw this.#requests.unusableAnswer(prefix, 'something other than a list of objects', wrongServer);
    const next = page.NextContinuationToken ?? '';
    if (page.IsTruncated && (next === '' || next === token)) throw this.#cutShort(prefix);
    const name = this.#nameDecoder(prefix, page.EncodingType);
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
  }

  /** Deletes an object. It is not an error if it does not exist. */
  async remove(key: string): Promise<void> {
    const command = new DeleteObjectCommand({ Bucket: this.#Bucket, Key: key });
    await ignoring('NoSuchKey', this.#send(key, command));
  }

  /** Deletes an object on a condition, which many servers ignore. Throws `storage_not_found`. */
  async removeVersion(key: string, condition: Condition): Promise<void> {
    const command = new DeleteObjectCommand({ Bucket: this.#Bucket, Key: key, ...conditionOf(condition) });
    await this.#send(key, command);
  }

  /** Starts a multipart upload and returns its id. `sha256` is null if it is not known yet. */
  async beginUpload(
    key: string,
    { sha256, headers }: { sha256: string | null; headers: ObjectHeaders },
  ): Promise<string> {
    const input = { Bucket: this.#Bucket, Key: key, ...headersOf(headers, sha256) };
    const { UploadId } = await this.#send(key, new CreateMultipartUploadCommand(input));
    if (UploadId === undefined) throw this.#requests.unusableAnswer(key, 'a multipart upload without an id');
    return UploadId;
  }

  /** Uploads a part and returns its ETag. The first `number` is 1. A null `sha256` leaves it unsigned. */
  async putPart(
    { key, uploadId, number }: OpenUpload & { number: number },
    bytes: Uint8Array,
    { sha256, signal }: Omit<BodyOptions, 'sha256'> & { sha256: string | null },
  ): Promise<string> {
    const command = new UploadPartCommand({
      Bucket: this.#Bucket,
      Key: key,
      UploadId: uploadId,
      PartNumber: number,
      Body: bytes,
      ContentLength: bytes.byteLength,
    });
    useDigest(command, sha256 ?? 'UNSIGNED-PAYLOAD');
    const { ETag } = await this.#send(key, command, { bodyBytes: bytes.byteLength, signal });
    if (ETag === undefined) throw this.#requests.unusableAnswer(key, 'a part without an ETag');
    return ETag;
  }

  /** Completes an upload, which makes the object visible, and returns its version. `etags` are in order. */
  async completeUpload({ key, uploadId }: OpenUpload, etags: readonly string[]): Promise<string> {
    const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
    const input = { Bucket: this.#Bucket, Key: key, UploadId: uploadId, MultipartUpload: { Parts } };
    return unquoteEtag((await this.#send(key, new CompleteMultipartUploadCommand(input))).ETag);
  }

  /** Aborts an upload. It is not an error if it does not exist. */
  async abortUpload({ key, uploadId }: OpenUpload): Promise<void> {
    const input = { Bucket: this.#Bucket, Key: key, UploadId: uploadId };
    await ignoring('NoSuchUpload', this.#send(key, new AbortMultipartUploadCommand(input)));
  }

  /** Returns one page of the uploads below a prefix that were started, but neither completed nor aborted. */
  async uploads(prefix: string, marker: UploadMarker): Promise<UploadPage> {
    const input = { Bucket: this.#Bucket, Prefix: prefix, EncodingType: 'url' as const, ...marker };
    const page = await this.#send(prefix, new ListMultipartUploadsCommand(input));
    const name = this.#nameDecoder(prefix, page.EncodingType);
    const uploads = (page.Uploads ?? []).flatMap(({ Key, UploadId }) =>
      UploadId === undefined ? [] : [{ key: name(Key), uploadId: UploadId }],
    );
    if (page.IsTruncated !== true) return { uploads, next: null };
    const next = { KeyMarker: name(page.NextKeyMarker), UploadIdMarker: page.NextUploadIdMarker ?? '' };
    if (next.KeyMarker === marker.KeyMarker && next.UploadIdMarker === marker.UploadIdMarker)
      throw this.#cutShort(prefix);
    return { uploads, next };
  }

  close(): void {
    this.#sdk.destroy();
  }

  #send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    key: string,
    command: Parameters<typeof S3Client.prototype.send<Input, Output>>[0],
    options?: { bodyBytes?: number; signal?: AbortSignal | undefined },
  ): Promise<Output> {
    return this.#requests.run(key, (abortSignal) => this.#sdk.send(command, { abortSignal }), options);
  }

  #nameDecoder(prefix: string, encoding: string | undefined): (name: string | undefined) => string {
    return nameDecoder(encoding, () =>
      this.#requests.unusableAnswer(prefix, 'a listing whose names are not URL-encoded as it says'),
    );
  }

  /** Creates the error for a page that is not the last one but lacks the token for the next. */
  #cutShort(prefix: string): Error {
    return this.#requests.unusableAnswer(
      prefix,
      'a truncated listing without a token for the next page',
      'this is a defect of the server; waybill never takes part of a listing for all of it',
    );
  }
}

/** Waits for a call, but ignores the S3 error `name`, which says that something does not exist. */
async function ignoring(name: string, call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (errorNameOf(error) !== name) throw error;
  }
}
