import { customAlphabet } from 'nanoid';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';
import { PartialDirectory } from './partial-files.ts';
import {
  createHolds,
  type Hold,
  type Holds,
  type NewPartialUpload,
  type PartialOutcome,
  type PartialUpload,
  reservedBytes,
} from './partial-upload.ts';

export interface PartialSettings {
  maxUploads: number;
  maxBytes: number;
  retentionMs: number;
  /** The maximum number of uploads per token. Default: `maxUploads`. */
  maxUploadsPerToken?: number;
  maxBytesPerToken?: number;
}

interface PartialOptions {
  /** The staging directory on this machine. */
  staging: string;
  clock: Clock;
  log: Log;
  settings: PartialSettings;
  /** The time that a request waits for another one to unlock the upload, in milliseconds. Default: 10,000. */
  holdWaitMs?: number;
}

const newId = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 24);
const maxSweepMs = 60_000;

/**
 * Manages uploads whose archives are sent in several requests. They do not occupy a queue slot, and have
 * their own limits. They survive a restart, and are deleted when no request has come in for a while.
 */
export class PartialUploads {
  /** The maximum number of concurrent uploads of this kind. 0 disables them. */
  readonly maxUploads: number;
  /** How long an upload is kept after its last byte, and its outcome after it has ended, in milliseconds. */
  readonly retentionMs: number;
  readonly #settings: PartialSettings;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #directory: PartialDirectory;
  readonly #uploads: Map<string, PartialUpload>;
  readonly #holds: Holds;
  /**
   * Uploads whose files are being created. Deleting one of them now would leave files behind that belong to
   * no upload.
   */
  readonly #creating = new Set<string>();
  readonly #sweeper: Timer;

  private constructor({ clock, log, settings, holdWaitMs }: PartialOptions, directory: PartialDirectory) {
    this.maxUploads = settings.maxUploads;
    this.retentionMs = settings.retentionMs;
    this.#settings = settings;
    this.#clock = clock;
    this.#log = log;
    this.#directory = directory;
    this.#uploads = new Map(directory.restored.map((upload) => [upload.id, upload]));
    this.#holds = createHolds(clock, holdWaitMs);
    const sweepMs = Math.min(maxSweepMs, settings.retentionMs);
    this.#sweeper = clock.every(sweepMs, () => void this.#sweep(), { unref: true });
  }

  /**
   * Opens the directory for partial uploads in `staging`, and continues the uploads of earlier processes.
   * Throws the system error if the directory cannot be used.
   */
  static async open(options: PartialOptions): Promise<PartialUploads> {
    const directory = await PartialDirectory.open(options.staging, options.clock);
    const uploads = directory.restored.length;
    if (uploads > 0) options.log.info({ uploads }, 'restored the partial uploads of an earlier process');
    return new PartialUploads(options, directory);
  }

  /**
   * Creates an upload. If an empty one with the same token, pipeline, and key exists, it is replaced, since
   * the client obviously never received the response. Throws `partial_uploads_full` if there are too many
   * uploads or they take up too much space, and `upload_too_large` if this upload alone does.
   */
  async create(wanted: NewPartialUpload): Promise<PartialUpload> {
    const unfinished = this.#unfinished();
    const replaced = unfinished.filter((upload) => this.#isReplacedBy(upload, wanted));
    this.#refuseIfFull(
      wanted,
      unfinished.filter((upload) => !replaced.includes(upload)),
    );
    const touchedAt = this.#clock.now();
    const upload: PartialUpload = { ...wanted, id: newId(), received: 0, touchedAt, outcome: null };
    this.#uploads.set(upload.id, upload);
    this.#creating.add(upload.id);
    try {
      for (const { id } of replaced) await this.remove(id);
      for (const restored of await this.#directory.claim()) this.#uploads.set(restored.id, restored);
      await this.#directory.files.create(upload.id);
      await this.#directory.files.save(upload);
    } catch (error) {
      await this.remove(upload.id).catch(() => undefined);
      throw error;
    } finally {
      this.#creating.delete(upload.id);
    }
    return upload;
  }

  /** Returns the upload's current state, or undefined if it is unknown or has been deleted. */
  find(id: string): PartialUpload | undefined {
    return this.#uploads.get(id);
  }

  /** Returns a token's uploads for a pipeline, including those that have ended, most recent first. */
  list(caller: string, pipelineId: string): PartialUpload[] {
    return [...this.#uploads.values()]
      .filter((upload) => upload.caller === caller && upload.pipelineId === pipelineId)
      .sort((one, other) => other.touchedAt.getTime() - one.touchedAt.getTime());
  }

  /** Locks the upload for a request, until another request takes over. Throws `upload_locked`. */
  hold(id: string): Promise<Hold> {
    return this.#holds.take(id);
  }

  /**
   * Appends chunks to the upload. If it fails halfway through, the chunks written so far are kept. Throws
   * `upload_not_found` if the bytes have disappeared from the disk, in which case the upload is lost.
   */
  async write(id: string, offset: number, chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const upload = this.#get(id);
    let end = offset;
    try {
      for await (const bytes of this.#directory.files.write(id, offset, chunks)) {
        end += bytes;
        upload.received = Math.max(upload.received, end);
        upload.touchedAt = this.#clock.now();
      }
    } catch (error) {
      throw this.#failureOf(id, error);
    }
  }

  /** Sets an archive's length that was not known before. It must not be greater than `maxBytes`. */
  async declareLength(id: string, length: number): Promise<void> {
    const upload = this.#get(id);
    upload.length = length;
    await this.#directory.files.save(upload);
  }

  /** Reads the whole archive. Throws the same errors as `write`. */
  async *read(id: string): AsyncGenerator<Uint8Array> {
    const { length } = this.#get(id);
    if (length === null)
      throw new WaybillError('internal_error', 'a partial upload without a length was read');
    try {
      yield* this.#directory.files.read(id, length);
    } catch (error) {
      throw this.#failureOf(id, error);
    }
  }

  /** Ends the upload by recording the accepted run, and deletes the bytes. */
  async end(id: string, outcome: PartialOutcome): Promise<void> {
    const upload = this.#get(id);
    upload.outcome = outcome;
    upload.touchedAt = this.#clock.now();
    await this.#directory.files.save(upload);
    await this.#directory.files.removeBytes(id);
  }

  async remove(id: string): Promise<void> {
    this.#uploads.delete(id);
    await this.#directory.files.remove(id);
  }

  /** Returns how many uploads do not have a run yet, and how many bytes they have received. */
  stats(): { uploads: number; bytes: number } {
    const unfinished = this.#unfinished();
    const bytes = unfinished.reduce((sum, { received }) => sum + received, 0);
    return { uploads: unfinished.length, bytes };
  }

  async close(): Promise<void> {
    this.#sweeper.cancel();
    await this.#directory.close();
  }

  /** Returns the uploads that do not have a run yet. */
  #unfinished(): PartialUpload[] {
    return [...this.#uploads.values()].filter(({ outcome }) => outcome === null);
  }

  #get(id: string): PartialUpload {
    const upload = this.#uploads.get(id);
    if (upload === undefined) throw unknownUpload();
    return upload;
  }

  #isReplacedBy(upload: PartialUpload, { caller, pipelineId, key }: NewPartialUpload): boolean {
    const isIdle = upload.received === 0 && !this.#holds.isHeld(upload.id) && !this.#creating.has(upload.id);
    const isSame = upload.caller === caller && upload.pipelineId === pipelineId && upload.key === key;
    return key !== null && isIdle && isSame;
  }

  #refuseIfFull({ caller, length, maxBytes: limit }: NewPartialUpload, others: PartialUpload[]): void {
    const { maxUploads, maxBytes } = this.#settings;
    const { maxUploadsPerToken = maxUploads, maxBytesPerToken = maxBytes } = this.#settings;
    const bytes = length ?? limit;
    if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
    if (others.length >= maxUploads || reserved(others) + bytes > maxBytes) throw full();
    const own = others.filter((upload) => upload.caller === caller);
    // If a token only has a single upload, that one may use up the whole limit.
    if (own.length === 0) return;
    if (own.length >= maxUploadsPerToken || reserved(own) + bytes > maxBytesPerToken) throw tokenFull();
  }

  /** Returns the error to report when a file of an upload cannot be accessed. */
  #failureOf(id: string, error: unknown): unknown {
    if (errnoOf(error) !== 'ENOENT') return error;
    this.#uploads.delete(id);
    return unknownUpload();
  }

  async #sweep(): Promise<void> {
    const oldest = this.#clock.now().getTime() - this.retentionMs;
    const expired = [...this.#uploads.values()].filter(
      ({ id, touchedAt }) => touchedAt.getTime() <= oldest && !this.#holds.isHeld(id),
    );
    for (const { id } of expired)
      await this.remove(id).catch((error: unknown) =>
        this.#log.error({ err: error }, 'a partial upload could not be removed'),
      );
    if (expired.length > 0) this.#log.info({ uploads: expired.length }, 'removed expired partial uploads');
  }
}

function reserved(uploads: readonly PartialUpload[]): number {
  return uploads.reduce((sum, upload) => sum + reservedBytes(upload), 0);
}

export function unknownUpload(): WaybillError {
  return new WaybillError(
    'upload_not_found',
    'there is no such upload here: it was cancelled or has expired, or another host has it',
    {
      hint: 'start a new upload; docs/operations.md explains how a load balancer keeps an upload on one host',
    },
  );
}

function full(): WaybillError {
  return new WaybillError('partial_uploads_full', 'too many partial uploads are open', {
    hint: 'try again later; server.resumable sets the limits of number, size and age',
  });
}

function tokenFull(): WaybillError {
  return new WaybillError('quota_exceeded', 'this token has too many partial uploads', {
    hint: 'finish or remove one; server.resumable sets the limits of a token',
  });
}

function tooLarge(bytes: number, maxBytes: number): WaybillError {
  return new WaybillError(
    'upload_too_large',
    `the archive may have ${bytes} bytes, and all partial uploads together at most ${maxBytes}`,
    { hint: 'upload it in one request, or ask the administrator to raise server.resumable.max_bytes' },
  );
}
