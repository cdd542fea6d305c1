import { customAlphabet } from 'nanoid';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';
import { openPartialPlace, type PartialPlace } from './partial-files.ts';
import {
  createHolds,
  type Hold,
  type NewPartialUpload,
  type PartialOutcome,
  type PartialUpload,
  reservedBytes,
} from './partial-upload.ts';

/**
 * Uploads whose archives come in several requests. They hold no slot of the queue and have separate limits.
 * They outlive the process, and are removed after a time without requests.
 */
export interface PartialUploads {
  /** Maximum of concurrent uploads; 0 disables them. */
  readonly maxUploads: number;
  /** How long an upload is kept after its last byte, and its outcome after its end, in milliseconds. */
  readonly retentionMs: number;
  /**
   * Throws `partial_uploads_full` if the limits of number or size are reached, and `upload_too_large` if this
   * upload alone exceeds the size limit. Replaces an empty upload of the same token, pipeline and key: the
   * answer to its creation was lost.
   */
  create(upload: NewPartialUpload): Promise<PartialUpload>;
  /** The upload's current state; undefined if it is unknown or was removed. */
  find(id: string): PartialUpload | undefined;
  /** A token's uploads of a pipeline, including ended ones, most recently touched first. */
  of(caller: string, pipelineId: string): PartialUpload[];
  /** Takes the right to change the upload, until another request takes it. Throws `upload_locked`. */
  hold(id: string): Promise<Hold>;
  /**
   * Appends the chunks. Chunks written before a failure are kept. Throws `upload_not_found` if the bytes were
   * removed from the disk: the upload is then lost.
   */
  write(id: string, offset: number, chunks: AsyncIterable<Uint8Array>): Promise<void>;
  /** Sets the length of an archive of unknown length; at most `maxBytes`. */
  declareLength(id: string, length: number): Promise<void>;
  /** Reads all bytes of the archive. Throws as `write`. */
  open(id: string): AsyncIterable<Uint8Array>;
  /** Stores the accepted run as the outcome, and removes the bytes. */
  end(id: string, outcome: PartialOutcome): Promise<void>;
  remove(id: string): Promise<void>;
  /** Number of uploads without a run, and their received bytes. */
  stats(): { uploads: number; bytes: number };
  close(): Promise<void>;
}

export interface PartialSettings {
  maxUploads: number;
  maxBytes: number;
  retentionMs: number;
  /** The maximum per token. Default: `maxUploads`. */
  maxUploadsPerToken?: number;
  maxBytesPerToken?: number;
}

export interface PartialOptions {
  /** Staging directory on this machine. */
  staging: string;
  clock: Clock;
  log: Log;
  settings: PartialSettings;
  /** How long a request waits for another one that holds the upload, in milliseconds. Default: 10,000. */
  holdWaitMs?: number;
}

const newId = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 24);
const sweepMs = 60_000;

/**
 * Restores the uploads of earlier processes below `staging`. Throws the system's error if it cannot be used.
 */
export async function openPartialUploads(options: PartialOptions): Promise<PartialUploads> {
  const place = await openPartialPlace(options.staging, options.clock);
  const known = new Map(place.left.map((upload) => [upload.id, upload]));
  if (known.size > 0)
    options.log.info({ uploads: known.size }, 'took up the partial uploads of an earlier process');
  return partialUploads(options, place, known);
}

function partialUploads(
  { clock, log, settings, holdWaitMs }: PartialOptions,
  place: PartialPlace,
  known: Map<string, PartialUpload>,
): PartialUploads {
  const { maxUploads, maxBytes, retentionMs } = settings;
  const { maxUploadsPerToken = maxUploads, maxBytesPerToken = maxBytes } = settings;
  const holds = createHolds(clock, holdWaitMs);
  // Uploads whose files are being created. Removing one now would leave unidentified files.
  const inTheMaking = new Set<string>();
  const open = (): PartialUpload[] => [...known.values()].filter(({ outcome }) => outcome === null);
  const get = (id: string): PartialUpload => {
    const upload = known.get(id);
    if (upload === undefined) throw unknownUpload();
    return upload;
  };
  const remove = async (id: string): Promise<void> => {
    known.delete(id);
    await place.files().remove(id);
  };
  /** The error to report for a file error of an upload. */
  const failureOf = (id: string, error: unknown): unknown => {
    if (errnoOf(error) !== 'ENOENT') return error;
    known.delete(id);
    return unknownUpload();
  };
  async function* bytesOf(id: string, length: number): AsyncGenerator<Uint8Array> {
    try {
      yield* place.files().open(id, length);
    } catch (error) {
      throw failureOf(id, error);
    }
  }
  const isFull = (
    uploads: readonly PartialUpload[],
    bytes: number,
    most: { uploads: number; bytes: number },
  ): boolean => {
    const taken = uploads.reduce((sum, upload) => sum + reservedBytes(upload), 0);
    return uploads.length >= most.uploads || taken + bytes > most.bytes;
  };
  const refuseIfFull = (caller: string, bytes: number, others: readonly PartialUpload[]): void => {
    if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
    const own = others.filter((upload) => upload.caller === caller);
    if (isFull(others, bytes, { uploads: maxUploads, bytes: maxBytes })) throw full();
    // A single upload may use the whole limit.
    if (own.length > 0 && isFull(own, bytes, { uploads: maxUploadsPerToken, bytes: maxBytesPerToken }))
      throw tokenFull();
  };
  const sweep = async (): Promise<void> => {
    const oldest = clock.now().getTime() - retentionMs;
    const over = [...known.values()].filter(
      ({ id, touchedAt }) => touchedAt.getTime() <= oldest && !holds.isHeld(id),
    );
    for (const { id } of over)
      await remove(id).catch((error: unknown) =>
        log.error({ err: error }, 'a partial upload could not be removed'),
      );
    if (over.length > 0) log.info({ uploads: over.length }, 'removed partial uploads that were given up');
  };
  const sweeper = clock.every(Math.min(sweepMs, retentionMs), () => void sweep(), { unref: true });

  return {
    maxUploads,
    retentionMs,
    find: (id) => known.get(id),
    of: (caller, pipelineId) =>
      [...known.values()]
        .filter((upload) => upload.caller === caller && upload.pipelineId === pipelineId)
        .sort((one, other) => other.touchedAt.getTime() - one.touchedAt.getTime()),
    hold: (id) => holds.take(id),
    create: async (wanted) => {
      const isTheSame = (upload: PartialUpload): boolean =>
        wanted.key !== null &&
        upload.received === 0 &&
        !holds.isHeld(upload.id) &&
        !inTheMaking.has(upload.id) &&
        (['caller', 'pipelineId', 'key'] as const).every((name) => upload[name] === wanted[name]);
      const replaced = open().filter(isTheSame);
      refuseIfFull(
        wanted.caller,
        wanted.length ?? wanted.maxBytes,
        open().filter((upload) => !replaced.includes(upload)),
      );
      const upload: PartialUpload = {
        ...wanted,
        id: newId(),
        received: 0,
        touchedAt: clock.now(),
        outcome: null,
      };
      known.set(upload.id, upload);
      inTheMaking.add(upload.id);
      try {
        for (const { id } of replaced) await remove(id);
        const { files, left } = await place.claim();
        for (const one of left) known.set(one.id, one);
        await files.begin(upload.id);
        await place.files().save(upload);
      } catch (error) {
        await remove(upload.id).catch(() => undefined);
        throw error;
      } finally {
        inTheMaking.delete(upload.id);
      }
      return upload;
    },
    write: async (id, offset, chunks) => {
      const upload = get(id);
      const onWritten = (bytes: number): void => {
        offset += bytes;
        upload.received = Math.max(upload.received, offset);
        upload.touchedAt = clock.now();
      };
      await place
        .files()
        .write(id, offset, chunks, onWritten)
        .catch((error: unknown) => {
          throw failureOf(id, error);
        });
    },
    declareLength: async (id, length) => {
      const upload = get(id);
      upload.length = length;
      await place.files().save(upload);
    },
    open: (id) => {
      const { length } = get(id);
      if (length === null)
        throw new WaybillError('internal_error', 'a partial upload without a length was opened');
      return bytesOf(id, length);
    },
    end: async (id, outcome) => {
      const upload = get(id);
      upload.outcome = outcome;
      upload.touchedAt = clock.now();
      await place.files().save(upload);
      await place.files().removeBytes(id);
    },
    remove,
    stats: () => {
      const uploads = open();
      return { uploads: uploads.length, bytes: uploads.reduce((sum, { received }) => sum + received, 0) };
    },
    close: async () => {
      sweeper.cancel();
      await place.close();
    },
  };
}

/** The error for an unknown upload. */
export function unknownUpload(): WaybillError {
  return new WaybillError(
    'upload_not_found',
    'there is no such upload here: it was given up or has expired, or another host has it',
    {
      hint: 'start a new upload; docs/operations.md explains how a load balancer keeps an upload on one host',
    },
  );
}

function full(): WaybillError {
  return new WaybillError('partial_uploads_full', 'there are as many partial uploads as there may be', {
    hint: 'try again later; server.resumable says how many there may be, and for how long',
  });
}

function tokenFull(): WaybillError {
  return new WaybillError('quota_exceeded', 'this token has as many partial uploads as it may have', {
    hint: 'finish or remove one; server.resumable says how many a token may have',
  });
}

function tooLarge(bytes: number, maxBytes: number): WaybillError {
  return new WaybillError(
    'upload_too_large',
    `the archive may have ${bytes} bytes, and all partial uploads together at most ${maxBytes}`,
    { hint: 'upload it in one request, or have server.resumable.max_bytes raised' },
  );
}
