/**
 * Keeps values for a while and within bounds: what was put in first goes first. Time is milliseconds of a
 * monotonic clock.
 */
export class ByteCache<T> {
  readonly #entries = new Map<string, { value: T; bytes: number; until: number }>();
  readonly #most: { entries: number; bytes: number };
  #bytes = 0;

  constructor(most: { entries: number; bytes: number }) {
    this.#most = most;
  }

  get(key: string, now: number): T | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.until > now) return entry.value;
    this.#delete(key);
    return undefined;
  }

  /** Keeps nothing that is larger than all that may be kept. */
  set(key: string, value: T, { bytes, until }: { bytes: number; until: number }): void {
    this.#delete(key);
    if (bytes > this.#most.bytes) return;
    this.#entries.set(key, { value, bytes, until });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#most.bytes && this.#entries.size <= this.#most.entries) return;
      this.#delete(oldest);
    }
  }

  #delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }
}
