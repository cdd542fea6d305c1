import { createSemaphore, type Semaphore } from '../../core/lib/parallel.ts';

/** Bounds how many places of a pool each pipeline has at once. A pipeline at its bound waits in order. */
export class PipelineShares {
  readonly #limit: number;
  /** Of pipelines that hold a place or wait for one. */
  readonly #used = new Map<string, { semaphore: Semaphore; users: number }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Resolves with the function that gives the place back. Rejects with the reason of `signal`. */
  async acquire(pipelineId: string, signal: AbortSignal): Promise<() => void> {
    const share = this.#used.get(pipelineId) ?? { semaphore: createSemaphore(this.#limit), users: 0 };
    this.#used.set(pipelineId, share);
    share.users += 1;
    const leave = (): void => {
      share.users -= 1;
      if (share.users === 0) this.#used.delete(pipelineId);
    };
    try {
      const release = await share.semaphore.acquire(1, signal);
      return () => {
        release();
        leave();
      };
    } catch (error) {
      leave();
      throw error;
    }
  }
}
