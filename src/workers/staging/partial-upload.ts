import type { Clock } from '../../core/lib/clock.ts';
import type { Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** An upload whose archive comes in several requests, as it is at this moment. */
export interface PartialUpload extends NewPartialUpload {
  id: string;
  /** Bytes that have come. The last one counts once there is a run: see `offsetOf`. */
  received: number;
  /** When the last byte came, or the upload was created. */
  touchedAt: Date;
  /** What came of it; null as long as no run has been accepted. Its bytes are gone then. */
  outcome: PartialOutcome | null;
}

/** What is known of it from the beginning. */
export interface NewPartialUpload {
  pipelineId: string;
  /** Id of the token that has begun it. */
  caller: string;
  /** The Idempotency-Key that it was begun with; null if there was none. */
  key: string | null;
  /** Whether a failed run of that key is to be repeated. */
  rerunFailed: boolean;
  /** The channel that it is published to; null for what is current. */
  channel: string | null;
  /** Of the archive, in bytes; null until it is declared. */
  length: number | null;
  /** Of the manifest of an archive that may leave out files that are kept; null: it is whole. */
  partial: Digest | null;
  /** What the archive may have at most, in bytes. */
  maxBytes: number;
  /** `Upload-Metadata`, for whoever asks for the upload; nothing else is made of it. */
  metadata: Record<string, string | null> | null;
}

export interface PartialOutcome {
  runId: string;
  /** As in `AcceptedRun`. */
  position: number | null;
  replayed: boolean;
}

/**
 * Where the client is to go on. The last byte is not acknowledged before the run is accepted: a client that
 * asks after a lost answer would take an upload for done that the queue had no room for. It is sent again
 * then, to the same effect. Pure.
 */
export function offsetOf({
  received,
  length,
  outcome,
}: Pick<PartialUpload, 'received' | 'length' | 'outcome'>): number {
  if (length === null) return received;
  return outcome === null ? Math.min(received, length - 1) : length;
}

/** What of the room for partial uploads it takes, in bytes: all that it may still become. Pure. */
export function reservedBytes({
  length,
  maxBytes,
  outcome,
}: Pick<PartialUpload, 'length' | 'maxBytes' | 'outcome'>): number {
  return outcome === null ? (length ?? maxBytes) : 0;
}

/** The right of one request to one upload. */
export interface Hold {
  /** Aborts when another request wants the upload: what it sends after the hold's own is what counts. */
  taken: AbortSignal;
  release(): void;
}

/** Who holds what, by the id of an upload. */
interface Holds {
  /**
   * Asks whoever holds the upload to let go, and waits for it. A client that asks again has lost its
   * connection, of which the server may know much later. Throws `upload_locked` if the holder is not done in
   * time: it hands the whole archive to the queue.
   */
  take(id: string): Promise<Hold>;
  isHeld(id: string): boolean;
}

/** Shorter than the patience of any proxy. */
const patienceMs = 10_000;

export function createHolds(clock: Pick<Clock, 'timeout'>, waitMs: number = patienceMs): Holds {
  const held = new Map<string, { abort: AbortController; released: Promise<void> }>();

  async function whenFree(id: string): Promise<void> {
    const patience = { isOver: false, end: (): void => undefined };
    const isOver = new Promise<void>((resolve) => (patience.end = resolve));
    const timer = clock.timeout(waitMs, () => {
      patience.isOver = true;
      patience.end();
    });
    try {
      for (let holder = held.get(id); holder !== undefined; holder = held.get(id)) {
        if (patience.isOver) throw locked('another request hands it to the queue, or sends it');
        holder.abort.abort(locked('another request has taken it over'));
        await Promise.race([holder.released, isOver]);
      }
    } finally {
      timer.cancel();
    }
  }

  return {
    take: async (id) => {
      // Whoever else waited may have been first.
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
