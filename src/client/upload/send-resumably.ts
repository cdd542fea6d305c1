import { hasCode, WaybillError, type ErrorCode } from '../../core/errors.ts';
import type { Connection, Requests } from '../http/connection.ts';
import { BodyTooLong } from '../http/failures.ts';
import type { AcceptedRun } from './accepted-run.ts';
import { archiveReader, type ArchiveReader, type Chunk } from './archive-reader.ts';
import {
  createUpload,
  findUpload,
  lookAt,
  sendPortion,
  standingOf,
  type RemoteUpload,
  type UploadPlace,
} from './remote-upload.ts';
import { piecesOf, type Upload } from './upload.ts';

/** The daemon takes no upload in several requests, or loses it again and again: why. */
export class NotResumable extends Error {
  override name = 'NotResumable';
  readonly reason: WaybillError;

  constructor(reason: WaybillError) {
    super(reason.message, { cause: reason });
    this.reason = reason;
  }
}

/** Of an older daemon, one that has them switched off, one without the room, or a proxy before it. */
const refusals: readonly ErrorCode[] = [
  'not_found',
  'method_not_allowed',
  'unexpected_answer',
  'unsupported_tus_version',
  'upload_too_large',
];
/** What an archive is refused for that was put together of what does not belong together. */
const damages: readonly ErrorCode[] = ['malformed_archive', 'invalid_bundle'];

const mostBeginnings = 5;
/** Between two looks at what somebody else sends. */
const watchMs = 1000;
/** No proxy refuses less. */
const leastPortion = 64 << 10;
const pieceBytes = 64 << 10;

const isAny = (error: unknown, codes: readonly ErrorCode[]): error is WaybillError =>
  codes.some((code) => hasCode(error, code));

export interface ResumableOptions {
  chunkBytes: number;
  /** Whether to wait for room among the daemon's partial uploads, rather than to be `NotResumable`. */
  isPatient: boolean;
  /** Of the manifest of an archive that leaves files out; null: it is whole. */
  partial?: string | null;
  channel?: string | undefined;
}

/**
 * Uploads an archive in several requests, each of at most a chunk, and goes on where the daemon says that it
 * is after a lost connection or an earlier process that was ended. Failures are tried again as those of any
 * request, with patience anew whenever more has arrived. Throws `NotResumable`, and what an upload in one
 * request is refused with.
 */
export async function sendResumably(
  connection: Connection,
  pipelineId: string,
  upload: Upload,
  { chunkBytes, isPatient, partial = null, channel }: ResumableOptions,
): Promise<AcceptedRun> {
  const place = { pipelineId, key: upload.idempotencyKey };
  const pieces = piecesOf(upload);
  const fingerprint = (await pieces.fingerprint?.()) ?? null;
  const reader = archiveReader(pieces, chunkBytes);
  const onSent = meter(pieces.onSent);
  let wasDamaged = false;
  try {
    for (let beginnings = 1; ; beginnings += 1) {
      const begun = await begin(connection, place, {
        ...{ size: upload.size, fingerprint, isPatient, partial, channel },
      });
      if ('runId' in begun) return begun;
      const sending = new Sending(connection, place, begun, { reader, onSent });
      try {
        return await sending.send();
      } catch (error) {
        // A daemon may have lost some of it in a power failure, or we go on with what another made.
        const isDamaged: boolean = sending.wasContinued && !wasDamaged && isAny(error, damages);
        const isGone = hasCode(error, 'upload_not_found');
        if (isGone && beginnings === mostBeginnings) throw new NotResumable(error as WaybillError);
        if (!isDamaged && !isGone) throw error;
        wasDamaged ||= isDamaged;
      }
    }
  } finally {
    await reader.close();
  }
}

async function begin(
  connection: Connection,
  place: UploadPlace,
  {
    fingerprint,
    isPatient,
    partial,
    channel,
    ...upload
  }: {
    size: number | undefined;
    fingerprint: string | null;
    isPatient: boolean;
    partial: string | null;
    channel: string | undefined;
  },
): Promise<RemoteUpload | AcceptedRun> {
  return connection.patiently(async (requests) => {
    try {
      const found = fingerprint === null ? null : await findUpload(requests, place, fingerprint);
      const { size } = upload;
      return (
        found ??
        (await createUpload(requests, place, {
          fingerprint,
          partial,
          channel,
          ...(size === undefined ? {} : { size }),
        }))
      );
    } catch (error) {
      if (hasCode(error, 'upload_not_found')) throw busy(error);
      const isRefused = isAny(error, refusals) || (!isPatient && hasCode(error, 'partial_uploads_full'));
      throw isRefused ? new NotResumable(error as WaybillError) : error;
    }
  });
}

/** Tells how much of the archive was sent, which only grows. */
function meter(tell: ((bytes: number) => void) | undefined): (reached: number) => void {
  let told = 0;
  return (reached) => {
    if (reached <= told) return;
    tell?.(reached - told);
    told = reached;
  };
}

/** One upload that is being sent. */
class Sending {
  /** It does not consist of one process's bytes that arrived one after another. */
  wasContinued: boolean;
  readonly #connection: Connection;
  readonly #place: UploadPlace;
  readonly #id: string;
  readonly #reader: ArchiveReader;
  readonly #onSent: (reached: number) => void;
  #offset: number;
  /** Where it has ever been. */
  #furthest: number;
  #isLengthKnown: boolean;
  /** Whether the daemon says so, and nothing was sent since. */
  #isOffsetKnown = true;
  /** Somebody else has taken the upload over: as long as that gets further, we would only be in its way. */
  #isContested = false;
  /** Bytes of the largest request that may pass. */
  #mostBytes = Infinity;

  constructor(
    connection: Connection,
    place: UploadPlace,
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
      const run = await this.#connection.patiently((requests) => this.#step(requests));
      if (run !== null) return run;
    }
  }

  /** Ends when something was reached, since patience begins anew with each step. */
  async #step(requests: Requests): Promise<AcceptedRun | null> {
    if (this.#isContested) {
      const seen = await lookAt(requests, this.#place, this.#id);
      if ('runId' in seen) return seen;
      if (this.#reach(seen.offset)) {
        await this.#connection.clock.sleep(watchMs, this.#connection.signal);
        return null;
      }
      this.#isContested = false;
    }
    if (!this.#isOffsetKnown) {
      const standing = await standingOf(requests, this.#place, this.#id);
      if ('runId' in standing) return standing;
      this.#isOffsetKnown = true;
      this.#isLengthKnown = standing.length !== null;
      if (this.#reach(standing.offset)) return null;
    }
    const chunk = await this.#reader.at(this.#offset);
    if (chunk === null) throw shorter(this.#offset);
    this.#onSent(chunk.readStart);
    return this.#sendOf(requests, chunk);
  }

  async #sendOf(requests: Requests, chunk: Chunk): Promise<AcceptedRun | null> {
    const offset = this.#offset;
    const bytes = Math.min(chunk.end - offset, this.#mostBytes);
    const isLast = chunk.isLast && offset + bytes === chunk.end;
    this.#isOffsetKnown = false;
    try {
      const run = await sendPortion(requests, this.#place, this.#id, {
        offset,
        bytes,
        body: () => this.#bodyOf(chunk, offset, bytes),
        length: isLast && !this.#isLengthKnown ? chunk.end : null,
      });
      // The last one without a run has to be looked after.
      this.#isOffsetKnown = !isLast;
      if (!isLast) this.#reach(offset + bytes);
      return run;
    } catch (error) {
      this.wasContinued = true;
      this.#isContested = hasCode(error, 'upload_locked');
      if (error instanceof WaybillError && error.cause instanceof BodyTooLong && bytes > leastPortion) {
        this.#mostBytes = Math.max(leastPortion, Math.floor(bytes / 2));
        return null;
      }
      if (!hasCode(error, 'upload_offset_conflict')) throw error;
      throw busy(error);
    }
  }

  async *#bodyOf(chunk: Chunk, offset: number, bytes: number): AsyncGenerator<Uint8Array> {
    const { start, end, readStart, readEnd } = chunk;
    for (let at = offset; at < offset + bytes; at += pieceBytes) {
      const until = Math.min(at + pieceBytes, offset + bytes);
      yield chunk.bytes.subarray(at - start, until - start);
      this.#onSent(Math.round(readStart + ((until - start) / (end - start)) * (readEnd - readStart)));
    }
  }

  /** Goes on from there; whether that is further than it ever was. */
  #reach(offset: number): boolean {
    const isFurther = offset > this.#furthest;
    this.#offset = offset;
    this.#furthest = Math.max(this.#furthest, offset);
    return isFurther;
  }
}

/** Of two that begin an upload of one key at once, one finds that it was replaced. */
function busy(cause: unknown): WaybillError {
  return new WaybillError('upload_locked', 'somebody else sends the same bundle', { cause });
}

/** What the daemon has is not of this archive. */
function shorter(offset: number): WaybillError {
  return new WaybillError(
    'malformed_archive',
    `the daemon has ${offset} bytes of an archive that is shorter`,
    {
      hint: 'the archive was changed while it was sent: run the same command again',
    },
  );
}
