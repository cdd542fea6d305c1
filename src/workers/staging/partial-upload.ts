import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** The current state of an upload whose archive arrives in several requests. */
export interface PartialUpload extends NewPartialUpload {
  id: string;
  /** Number of received bytes. The last byte counts only once a run is accepted (see `offsetOf`). */
  received: number;
  /** Time of the last byte received, or of the creation. */
  touchedAt: Date;
  /** The accepted run, or null until there is one. Once it is set, the bytes are removed. */
  outcome: PartialOutcome | null;
}

/** Properties set at creation. */
export interface NewPartialUpload {
  pipelineId: string;
  /** Id of the token that created the upload. */
  caller: string;
  /** The Idempotency-Key of the request that created it, or null if there was none. */
  key: string | null;
  /** Whether to rerun a failed run that has this key. */
  rerunFailed: boolean;
  /** The channel to publish to, or null for the current release. */
  channel: string | null;
  /** Size of the archive in bytes, or null until it is declared. */
  length: number | null;
  /** Digest of the manifest if the archive may omit kept files, or null for a complete archive. */
  partial: Digest | null;
  /** Maximum size of the archive in bytes. */
  maxBytes: number;
  /** `Upload-Metadata`, which is only returned to clients that query the upload. */
  metadata: Record<string, string | null> | null;
}

export interface PartialOutcome {
  runId: string;
  /** Same as in `AcceptedRun`. */
  position: number | null;
  replayed: boolean;
}

/**
 * Returns the offset at which the client continues. The last byte is acknowledged only once the run is
 * accepted. Otherwise, a client that queries the offset after a lost response would see a complete upload
 * even though the queue refused it. The client then sends the last byte again, which is harmless.
 */
export function offsetOf({
  received,
  length,
  outcome,
}: Pick<PartialUpload, 'received' | 'length' | 'outcome'>): number {
  if (length === null) return received;
  return outcome === null ? Math.min(received, length - 1) : length;
}

/** Returns the disk space reserved for the upload, which is its maximum final size in bytes. */
export function reservedBytes({
  length,
  maxBytes,
  outcome,
}: Pick<PartialUpload, 'length' | 'maxBytes' | 'outcome'>): number {
  return outcome === null ? (length ?? maxBytes) : 0;
}

/** A request's exclusive right to an upload. */
export interface Hold {
  /** Aborts when another request wants the upload. From then on, only the newer request's bytes count. */
  taken: AbortSignal;
  release(): void;
}

/** The current holds, by upload id. */
export interface Holds {
  /**
   * Requests the current holder to release the upload, and waits for it to do so. A client that reconnects
   * has lost its old connection, which the server may detect much later. Throws `upload_locked` if the holder
   * does not release it in time because it is passing the complete archive to the queue.
   */
  take(id: string): Promise<Hold>;
  isHeld(id: string): boolean;
}

/** Shorter than any proxy's timeout. */
const holdTimeoutMs = 10_000;

export function createHolds(clock: Pick<Clock, 'timeout'>, waitMs: number = holdTimeoutMs): Holds {
  const held = new Map<string, { abort: AbortController; released: Promise<void> }>();

  async function whenFree(id: string): Promise<void> {
    const timeout = { isOver: false, end: (): void => undefined };
    const isOver = new Promise<void>((resolve) => (timeout.end = resolve));
    const timer = clock.timeout(waitMs, () => {
      timeout.isOver = true;
      timeout.end();
    });
    try {
      for (let holder = held.get(id); holder !== undefined; holder = held.get(id)) {
        if (timeout.isOver) throw locked('another request hands it to the queue, or sends it');
        holder.abort.abort(locked('another request has taken it over'));
        await Promise.race([holder.released, isOver]);
      }
    } finally {
      timer.cancel();
    }
  }

  return {
    take: async (id) => {
      // Another waiting request may have taken it first.
      while (held.has(id)) await whenFree(id);
      const abort = new AbortController();
      let release: () => void = () => undefined;
      const released = new Promise<void>((resolve) => (release = resolve));
      held.set(id, { abort, released });
      return {
        taken: abort.signal,
        release: () => {
          if (held.get(id)?.abort === abort) held.delete(id);
          release();
        },
      };
    },
    isHeld: (id) => held.has(id),
  };
}

function locked(why: string): WaybillError {
  return new WaybillError('upload_locked', `the upload is in use: ${why}`, {
    hint: 'ask for its offset shortly, and go on from there',
  });
}
