import { onAbort } from '../../core/lib/on-abort.ts';
/** Those who wait for runs to finish, by run. */
export class RunWaiters {
  readonly #ends = new Map<string, Set<() => void>>();

  /** The runs that somebody waits for. */
  get runIds(): string[] {
    return [...this.#ends.keys()];
  }

  /** Resolves when `finished` is called for the run, or when `signal` aborts. Never rejects. */
  wait(runId: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const ends = this.#ends.get(runId) ?? new Set();
    this.#ends.set(runId, ends);
    return new Promise((resolve) => {
      const end = (): void => {
        release();
        ends.delete(end);
        if (ends.size === 0) this.#ends.delete(runId);
        resolve();
      };
      ends.add(end);
      const release = onAbort(signal, end);
    });
  }

  finished(runId: string): void {
    for (const end of [...(this.#ends.get(runId) ?? [])]) end();
  }
}
