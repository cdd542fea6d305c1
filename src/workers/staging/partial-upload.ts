import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** An upload whose archive is sent in several requests. */
export interface PartialUpload extends NewPartialUpload {
  id: string;
  /**
   * The number of bytes received. The last one is not acknowledged until a run is accepted (see `offsetOf`).
   */
  received: number;
  /** The time at which the last byte was received, or else the upload was created. */
  touchedAt: Date;
  /** The run that was accepted, or null. As soon as there is a run, the bytes are deleted. */
  outcome: PartialOutcome | null;
}

/** The properties of an upload that are set when it is created. */
export interface NewPartialUpload {
  pipelineId: string;
  /** The id of the token that created the upload. */
  caller: string;
  /** The Idempotency-Key of the request that created the upload, or null. */
  key: string | null;
  /** Whether to start a new run if the one with this key has failed. */
  rerunFailed: boolean;
  /** The channel to publish to, or null for the current release. */
  channel: string | null;
  /** The archive's size in bytes, or null if the client has not declared it yet. */
  length: number | null;
  /**
   * The digest of the manifest if the archive may leave out files that the server has kept. null if it is
   * complete.
   */
  partial: Digest | null;
  /** The maximum size of the archive in bytes. */
  maxBytes: number;
  /** The `Upload-Metadata` header. It is only used to return it to clients that ask for it. */
  metadata: Record<string, string | null> | null;
}

export interface PartialOutcome {
  runId: string;
  /** See `AcceptedRun`. */
  position: number | null;
  replayed: boolean;
}

/**
 * Returns the offset at which the client should continue. The last byte is not acknowledged until the run has
 * been accepted. Otherwise, if the queue rejected the upload and the response got lost, a client would take
 * the upload for complete. Sending the last byte again is harmless.
 */
export function offsetOf({
  received,
  length,
  outcome,
}: Pick<PartialUpload, 'received' | 'length' | 'outcome'>): number {
  if (length === null) return received;
  return outcome === null ? Math.min(received, length - 1) : length;
}

/** Returns the disk space to reserve for the upload: the largest size that it can reach, in bytes. */
export function reservedBytes({
  length,
  maxBytes,
  outcome,
}: Pick<PartialUpload, 'length' | 'maxBytes' | 'outcome'>): number {
  return outcome === null ? (length ?? maxBytes) : 0;
}

/** Gives a request the exclusive right to change an upload. */
export interface Hold {
  /**
   * Aborts when another request takes over the upload. From then on, no more bytes of this request are
   * accepted.
   */
  taken: AbortSignal;
  release(): void;
}

/** Keeps track of which uploads are locked by a request. */
export interface Holds {
  /**
   * Locks an upload. If another request has it locked, asks that request to stop and waits for it. Usually,
   * the client has lost its connection and reconnected, and the server has not noticed yet. Throws
   * `upload_locked` if the other request does not stop in time because it is passing the complete archive to
   * the queue.
   */
  take(id: string): Promise<Hold>;
  isHeld(id: string): boolean;
}

/** This is shorter than the timeout of any proxy. */
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
        if (timeout.isOver) throw locked('another request is sending it or adding it to the queue');
        holder.abort.abort(locked('another request has taken it over'));
        await Promise.race([holder.released, isOver]);
      }
    } finally {
      timer.cancel();
    }
  }

  return {
    take: async (id) => {
      // Another request that was also waiting may have been faster.
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
    hint: 'request its offset in a moment, and continue from there',
  });
}
