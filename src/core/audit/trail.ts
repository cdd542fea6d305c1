import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { Clock, Timer } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { closeAll } from '../lib/lifecycle.ts';
import type { Log } from '../lib/log.ts';
import { makeDurableDirectory } from '../lib/sync.ts';
import { errnoOf } from '../lib/system-errors.ts';
import { type AppendLock, openAppendLock } from './append-lock.ts';
import type { ActEntry, AuditRecord } from './record.ts';
import { removeReserve, requireReserve, reserveBytes, reserveName } from './reserve.ts';
import { type TrailSettings, TrailWriter } from './trail-writer.ts';

interface TrailOptions {
  clock: Clock;
  log: Log;
  /** The name to use in records. Default: the name of this machine. */
  host?: string;
  /** Called with each record that this process has written to the disk, in order. Must not throw. */
  onRecord?: (record: AuditRecord) => void;
}

/** Records acts. Several processes on the same machine can write to a trail. */
export interface Trail {
  /**
   * Call this before an act. Throws `audit_unavailable` if the trail cannot be written and acts need a
   * record. Otherwise, there is enough space for the record.
   */
  requireWritable(): Promise<void>;
  /** Throws `audit_unavailable` if the trail cannot be written, whether or not acts are refused then. */
  check(): Promise<void>;
  /**
   * Adds a record. Resolves when the record is on disk. If it cannot be written, resolves after the first
   * attempt, and the record is kept in memory until it can. Never rejects.
   */
  append(entry: ActEntry): Promise<void>;
  /** Writes any records that are still in memory. If that fails, logs them. */
  close(): Promise<void>;
}

/** Records nothing, for configurations that have no `audit` section. */
export const noTrail: Trail = {
  requireWritable: async () => undefined,
  check: async () => undefined,
  append: async () => undefined,
  close: async () => undefined,
};

interface WaitingAct {
  entry: ActEntry;
  time: Date;
  /** Called once, after the first attempt. */
  onAttempt: () => void;
}

/**
 * How many records can wait. Any others are dropped and logged, and an `audit.gap` record says how many there
 * were.
 */
const maxWaiting = 10_000;
/** How many records to write at a time. */
const maxBatch = 256;
const retryMs = 1_000;

/**
 * Opens the trail in a directory, creating it if necessary. Throws an `audit_unavailable` error if that
 * fails.
 */
export async function openTrail(settings: TrailSettings, options: TrailOptions): Promise<Trail> {
  const { directory } = settings;
  try {
    await makeDurableDirectory(directory, 0o700);
    const lock = await openAppendLock(directory, options.clock);
    const host = options.host ?? hostname();
    const trail = new QueuedTrail(settings, {
      ...options,
      lock,
      writer: new TrailWriter(settings, { ...options, host }),
    });
    await trail.start();
    return trail;
  } catch (cause) {
    throw unavailable(cause);
  }
}

/** Opens the trail in the configuration. If there is none, returns one that records nothing. */
export async function openConfiguredTrail(
  settings: TrailSettings | null,
  options: TrailOptions,
): Promise<Trail> {
  return settings === null ? noTrail : openTrail(settings, options);
}

interface TrailParts extends TrailOptions {
  lock: AppendLock;
  writer: TrailWriter;
}

class QueuedTrail implements Trail {
  readonly #settings: TrailSettings;
  readonly #parts: TrailParts;
  #waiting: WaitingAct[] = [];
  /** How many records were dropped since something was last written. */
  #lost = 0;
  /** Whether the last attempt to write failed. */
  #isFailing = false;
  /**
   * The reason for refusing acts: the last write failed, or there is no space for the reserve. null if acts
   * are allowed.
   */
  #failure: unknown = null;
  #draining: Promise<void> | null = null;
  #retry: Timer | null = null;

  constructor(settings: TrailSettings, parts: TrailParts) {
    this.#settings = settings;
    this.#parts = parts;
  }

  /**
   * Cleans up if an earlier process was interrupted while writing, and makes sure that there is space. If
   * that fails and acts need a record, closes everything and throws an error.
   */
  async start(): Promise<void> {
    const { lock } = this.#parts;
    try {
      await lock.hold(async () => {
        await this.#append([]);
        await this.#reserve();
      });
    } catch (error) {
      this.#noteFailure(error);
      if (this.#settings.onFull !== 'refuse') return;
      await this.#release();
      throw error;
    }
  }

  async requireWritable(): Promise<void> {
    if (this.#settings.onFull === 'refuse') await this.check();
  }

  async check(): Promise<void> {
    const needsReserve = this.#settings.onFull === 'refuse';
    if (this.#failure === null && (!needsReserve || (await this.#hasReserve()))) return;
    // An attempt can wait for the lock for 15 s, so all requests share one.
    await (this.#draining ?? this.#drain(true));
    if (this.#failure !== null) throw unavailable(this.#failure);
  }

  append(entry: ActEntry): Promise<void> {
    const time = this.#parts.clock.now();
    if (this.#waiting.length >= maxWaiting) {
      this.#drop({ entry, time });
      return Promise.resolve();
    }
    return new Promise((onAttempt) => {
      this.#waiting.push({ entry, time, onAttempt });
      // While writing fails, a timer keeps trying. Acts do not wait for that.
      if (this.#isFailing) onAttempt();
      else void this.#drain(false);
    });
  }

  async close(): Promise<void> {
    await this.#drain(true);
    for (const one of this.#waiting.splice(0)) this.#drop(one);
    await this.#release();
  }

  async #release(): Promise<void> {
    const { lock, writer } = this.#parts;
    this.#retry?.cancel();
    await closeAll(
      () => writer.close(),
      () => lock.close(),
    );
  }

  /**
   * Writes the records that are waiting, and makes sure that there is space for others. With `always`, does
   * this even if no records are waiting.
   */
  async #drain(always: boolean): Promise<void> {
    while (this.#draining !== null) {
      await this.#draining;
      if (!always && (this.#isFailing || this.#waiting.length === 0)) return;
    }
    this.#draining = this.#writeAll(always).finally(() => (this.#draining = null));
    await this.#draining;
  }

  async #writeAll(always: boolean): Promise<void> {
    const { lock } = this.#parts;
    try {
      let isFirst = always;
      let noRoom: unknown = null;
      while (this.#waiting.length > 0 || isFirst) {
        isFirst = false;
        const batch = this.#waiting.slice(0, maxBatch);
        noRoom = await lock.hold(() => this.#writeBatch(batch));
      }
      this.#isFailing = false;
      if (noRoom === null) this.#noteSuccess();
      else this.#noteFailure(noRoom);
    } catch (error) {
      this.#isFailing = true;
      this.#noteFailure(error);
      for (const { onAttempt } of this.#waiting) onAttempt();
    }
  }

  /**
   * Writes some records. Returns the reason why there is no space for any others, or null if there is. Throws
   * if writing fails.
   */
  async #writeBatch(batch: readonly WaitingAct[]): Promise<unknown> {
    const { clock } = this.#parts;
    const lost = this.#lost;
    const gap: ActEntry = {
      act: 'audit.gap',
      result: 'failed',
      code: 'audit_unavailable',
      actor: { type: 'daemon', id: null },
      detail: { lost },
    };
    const entries = [...(lost > 0 ? [{ entry: gap, time: clock.now() }] : []), ...batch];
    try {
      await this.#append(entries);
    } catch (error) {
      // This is what the reserve is for. Acts that were allowed while there was space get their records.
      if (!(await removeReserve(this.#settings.directory))) throw error;
      await this.#append(entries);
    }
    this.#lost -= lost;
    this.#waiting.splice(0, batch.length);
    for (const { onAttempt } of batch) onAttempt();
    return this.#reserve().then(
      () => null,
      (error: unknown) => error,
    );
  }

  async #append(entries: Parameters<TrailWriter['append']>[0]): Promise<void> {
    const { writer, onRecord } = this.#parts;
    const records = await writer.append(entries);
    if (onRecord !== undefined) records.forEach(onRecord);
  }

  async #reserve(): Promise<void> {
    if (this.#settings.onFull === 'refuse') await requireReserve(this.#settings.directory);
  }

  async #hasReserve(): Promise<boolean> {
    const found = await stat(path.join(this.#settings.directory, reserveName)).catch(() => null);
    return found !== null && found.size >= reserveBytes;
  }

  #noteSuccess(): void {
    if (this.#failure === null) return;
    this.#parts.log.info({ directory: this.#settings.directory }, 'the audit trail is written again');
    this.#failure = null;
  }

  #noteFailure(error: unknown): void {
    const { log, clock } = this.#parts;
    const { directory, onFull } = this.#settings;
    if (this.#failure === null)
      log.error({ err: error, directory, on_full: onFull }, 'the audit trail cannot be written');
    this.#failure = error;
    this.#retry?.cancel();
    this.#retry = clock.timeout(retryMs, () => void this.#drain(true), { unref: true });
  }

  #drop({ entry, time }: Pick<WaitingAct, 'entry' | 'time'>): void {
    this.#lost += 1;
    this.#parts.log.error({ record: { ...entry, time: time.toISOString() } }, 'an audit record is lost');
  }
}

/** Returns the error for clients, with no path in it. */
function unavailable(cause: unknown): WaybillError {
  if (cause instanceof WaybillError) return cause;
  const why = errnoOf(cause) ?? 'the log has the reason';
  return new WaybillError('audit_unavailable', `the audit trail cannot be written: ${why}`, {
    cause,
    hint: 'check that the disk of audit.directory has free space and is writable',
  });
}
