import type { Digest } from '../../core/lib/digest.ts';
import type { AdmissionRequest } from '../queue/job-queue.ts';

export interface UsedKey {
  state: 'used';
  runId: string;
  contentDigest: Digest;
}

export type KeyState = { state: 'staging' } | UsedKey;

/** What an Idempotency-Key counts for, as one string; null for a request without a key. */
export function scopeOf({ pipelineId, idempotency }: AdmissionRequest): string | null {
  return idempotency === undefined ? null : JSON.stringify([idempotency.caller, pipelineId, idempotency.key]);
}

/**
 * The Idempotency-Keys in use, by scope. A key is `staging` while its first request is being received, and
 * `used` once that was accepted; a release forgets it, so that the client may try again. It belongs to the
 * last run that was accepted with it and is forgotten with that.
 */
export class Keys {
  readonly #states = new Map<string, KeyState>();

  get(scope: string | null): KeyState | undefined {
    return scope === null ? undefined : this.#states.get(scope);
  }

  /** Marks the key as `staging`. */
  take(scope: string): void {
    this.#states.set(scope, { state: 'staging' });
  }

  /** Forgets a key that is `staging`. */
  release(scope: string): void {
    this.#states.delete(scope);
  }

  /** From now on the key belongs to this run. */
  use(scope: string, runId: string, contentDigest: Digest): void {
    this.#states.set(scope, { state: 'used', runId, contentDigest });
  }

  /** Forgets the key, unless a run that was started for a failed one has it by now. */
  forget(scope: string, runId: string): void {
    const known = this.#states.get(scope);
    if (known?.state === 'used' && known.runId === runId) this.#states.delete(scope);
  }
}
