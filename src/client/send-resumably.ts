import type { ErrorCode } from '../core/lib/error-codes.ts';
import { hasCode, WaybillError } from '../core/lib/errors.ts';
import { type ArchiveReader, archiveReader, type Chunk, resumableSource, type Upload } from './archive.ts';
import { type Connection, isRefusedToken, type RequestSender } from './connection.ts';
import { BodyTooLongError } from './failures.ts';
import {
  claimUpload,
  createUpload,
  fetchUpload,
  findUpload,
  patchUpload,
  type RemoteUpload,
  type UploadKey,
} from './remote-upload.ts';
import type { AcceptedRun } from './runs.ts';

/** Thrown if the daemon does not support resumable uploads, or keeps losing this one. */
export class NotResumableError extends Error {
  override name = 'NotResumableError';
  readonly reason: WaybillError;

  constructor(reason: WaybillError) {
    super(reason.message, { cause: reason });
    this.reason = reason;
  }
}

/**
 * Errors from a daemon that does not support resumable uploads or has no space for them, and from a proxy in
 * front of it.
 */
const unsupportedCodes: readonly ErrorCode[] = [
  'not_found',
  'method_not_allowed',
  'unexpected_answer',
  'unsupported_tus_version',
  'upload_too_large',
];
/** Errors that suggest that the parts of an archive do not belong together. */
const corruptionCodes: readonly ErrorCode[] = ['malformed_archive', 'invalid_bundle'];

const maxStarts = 5;
/** A token may expire during a request. More in a row, without progress, are refused for another reason. */
const maxRefusedTokens = 5;
/** The polling interval while another client is sending the upload. */
const watchMs = 1000;
/** Small enough to get through any proxy. */
const minPatchBytes = 64 << 10;
const pieceBytes = 64 << 10;

const hasAnyCode = (error: unknown, codes: readonly ErrorCode[]): error is WaybillError =>
  codes.some((code) => hasCode(error, code));

interface ResumableOptions {
  chunkBytes: number;
  /** If too many uploads are in progress, wait rather than throwing `NotResumableError`. */
  waitsForSlot: boolean;
  /** The manifest's digest if files have been left out of the archive. null if it is complete. */
  partial?: string | null;
  channel?: string | undefined;
}

/**
 * Uploads an archive in several requests, each of which contains at most one chunk. If the connection breaks
 * or the process is killed, the upload continues at the offset that the daemon reports. Temporary failures
 * are retried, and whenever more bytes have arrived, the retry limits start over. Throws `NotResumableError`,
 * and the same errors as an upload in a single request.
 */
export async function sendResumably(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  { chunkBytes, waitsForSlot, partial = null, channel }: ResumableOptions,
): Promise<AcceptedRun> {
  const place = { pipelineId, key: upload.idempotencyKey };
  const pieces = resumableSource(upload);
  const fingerprint = (await pieces.fingerprint?.()) ?? null;
  const reader = archiveReader(pieces, chunkBytes);
  const onSent = meter(pieces.onSent);
  let wasDamaged = false;
  try {
    for (let starts = 1; ; starts += 1) {
      const started = await findOrCreateUpload(connection, place, {
        size: upload.size,
        fingerprint,
        waitsForSlot,
        partial,
        channel,
      });
      if ('runId' in started) return started;
      const sending = new ResumableTransfer(connection, place, started, { reader, onSent });
      try {
        return await sending.send();
      } catch (error) {
        // The daemon may have lost bytes in a power failure, or another client may have sent different ones.
        const isDamaged: boolean = sending.wasContinued && !wasDamaged && hasAnyCode(error, corruptionCodes);
        const isGone = hasCode(error, 'upload_not_found');
        if (isGone && starts === maxStarts) throw new NotResumableError(error as WaybillError);
        if (!isDamaged && !isGone) throw error;
        wasDamaged ||= isDamaged;
      }
    }
  } finally {
    await reader.close();
  }
}

async function findOrCreateUpload(
  connection: Connection,
  place: UploadKey,
  {
    fingerprint,
    waitsForSlot,
    partial,
    channel,
    ...upload
  }: {
    size: number | undefined;
    fingerprint: string | null;
    waitsForSlot: boolean;
    partial: string | null;
    channel: string | undefined;
  },
): Promise<RemoteUpload | AcceptedRun> {
  return connection.withRetries(async (requests) => {
    try {
      const found = fingerprint === null ? null : await findUpload(requests, place, fingerprint);
      const { size } = upload;
      return found ?? (await createUpload(requests, place, { fingerprint, partial, channel, size }));
    } catch (error) {
      if (hasCode(error, 'upload_not_found')) throw sentByAnotherClient(error);
      const isRefused =
        hasAnyCode(error, unsupportedCodes) || (!waitsForSlot && hasCode(error, 'partial_uploads_full'));
      throw isRefused ? new NotResumableError(error as WaybillError) : error;
    }
  });
}

/**
 * Converts the number of bytes sent to progress since the last call. Bytes that are sent again do not count.
 */
function meter(onBytes: ((bytes: number) => void) | undefined): (reached: number) => void {
  let reported = 0;
  return (reached) => {
    if (reached <= reported) return;
    onBytes?.(reached - reported);
    reported = reached;
  };
}

/** The state of a resumable upload. */
class ResumableTransfer {
  /** True if the upload was interrupted or started by another process. It may be corrupted in that case. */
  wasContinued: boolean;
  readonly #connection: Connection;
  readonly #place: UploadKey;
  readonly #id: string;
  readonly #reader: ArchiveReader;
  readonly #onSent: (reached: number) => void;
  #offset: number;
  /** The highest offset that has been reached. */
  #furthest: number;
  #isLengthKnown: boolean;
  /** True if `#offset` is what the daemon has reported. */
  #isOffsetKnown = true;
  /** The number of tokens that were refused since the last progress. */
  #refusedTokens = 0;
  /** Whether another client is sending the upload. This client waits while the other one makes progress. */
  #isContested = false;
  /** The largest request to send. If a proxy says that a request is too large, this is reduced. */
  #maxRequestBytes = Infinity;

  constructor(
    connection: Connection,
    place: UploadKey,
    { id, offset, length }: RemoteUpload,
    { reader, onSent }: { reader: ArchiveReader; onSent: (reached: number) => void },
  ) {
    this.#connection = connection;
    this.#place = place;
    this.#id = id;
    this.#reader = reader;
    this.#onSent = onSent;
    this.#offset = offset;
    this.#furthest = offset;
    this.#isLengthKnown = length !== null;
    this.wasContinued = offset > 0;
  }

  async send(): Promise<AcceptedRun> {
    for (;;) {
      const run = await this.#connection.withRetries((requests) => this.#step(requests));
      if (run !== null) return run;
    }
  }

  /**
   * Does the next part of the work. Returns as soon as there is any progress, since that resets the retry
   * limits.
   */
  async #step(requests: RequestSender): Promise<AcceptedRun | null> {
    if (this.#isContested) {
      const seen = await fetchUpload(requests, this.#place, this.#id);
      if ('runId' in seen) return seen;
      if (this.#advanceTo(seen.offset)) {
        await this.#connection.clock.sleep(watchMs, this.#connection.signal);
        return null;
      }
      this.#isContested = false;
    }
    if (!this.#isOffsetKnown) {
      const claimed = await claimUpload(requests, this.#place, this.#id);
      if ('runId' in claimed) return claimed;
      this.#isOffsetKnown = true;
      this.#isLengthKnown = claimed.length !== null;
      if (this.#advanceTo(claimed.offset)) return null;
    }
    const chunk = await this.#reader.at(this.#offset);
    if (chunk === null) throw archiveTooShort(this.#offset);
    this.#onSent(chunk.readStart);
    return this.#sendChunk(requests, chunk);
  }

  async #sendChunk(requests: RequestSender, chunk: Chunk): Promise<AcceptedRun | null> {
    const offset = this.#offset;
    const bytes = Math.min(chunk.end - offset, this.#maxRequestBytes);
    const isLast = chunk.isLast && offset + bytes === chunk.end;
    this.#isOffsetKnown = false;
    try {
      const run = await patchUpload(requests, this.#place, this.#id, {
        offset,
        bytes,
        body: () => this.#chunkBody(chunk, offset, bytes),
        length: isLast && !this.#isLengthKnown ? chunk.end : null,
      });
      // If everything was sent but there is no run yet, the next step requests the upload's state.
      this.#isOffsetKnown = !isLast;
      if (!isLast) this.#advanceTo(offset + bytes);
      return run;
    } catch (error) {
      this.wasContinued = true;
      this.#isContested = hasCode(error, 'upload_locked');
      if (error instanceof WaybillError && error.cause instanceof BodyTooLongError && bytes > minPatchBytes) {
        this.#maxRequestBytes = Math.max(minPatchBytes, Math.floor(bytes / 2));
        return null;
      }
      if (this.#connection.canRenew && isRefusedToken(error) && this.#refusedTokens < maxRefusedTokens) {
        this.#refusedTokens += 1;
        return null;
      }
      if (!hasCode(error, 'upload_offset_conflict')) throw error;
      throw sentByAnotherClient(error);
    }
  }

  async *#chunkBody(chunk: Chunk, offset: number, bytes: number): AsyncGenerator<Uint8Array> {
    const { start, end, readStart, readEnd } = chunk;
    for (let at = offset; at < offset + bytes; at += pieceBytes) {
      const until = Math.min(at + pieceBytes, offset + bytes);
      yield chunk.bytes.subarray(at - start, until - start);
      this.#onSent(Math.round(readStart + ((until - start) / (end - start)) * (readEnd - readStart)));
    }
  }

  /** Sets the offset at which to continue. Returns true if the upload has never come that far before. */
  #advanceTo(offset: number): boolean {
    const isFurther = offset > this.#furthest;
    if (isFurther) this.#refusedTokens = 0;
    this.#offset = offset;
    this.#furthest = Math.max(this.#furthest, offset);
    return isFurther;
  }
}

/**
 * Creates the error for two clients that start an upload with the same key, so that one replaces the other's.
 */
function sentByAnotherClient(cause: unknown): WaybillError {
  return new WaybillError('upload_locked', 'another client is sending the same bundle', { cause });
}

/** Creates the error for a daemon that has an upload of a different archive. */
function archiveTooShort(offset: number): WaybillError {
  return new WaybillError(
    'malformed_archive',
    `the daemon has ${offset} bytes of an archive that is shorter`,
    {
      hint: 'the archive was changed while it was sent: run the same command again',
    },
  );
}
