import { setImmediate as endOfTurn } from 'node:timers/promises';
import { type Clock, type Timer, waitAtMost } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/**
 * The new state of an entry. It is either a function that returns the value when it is about to be written,
 * or null to delete the entry.
 */
export type Change = (() => string) | null;

interface Addition {
  key: string;
  value: () => string;
  /** A directory that has to be flushed to disk before the entry is written, or null. */
  directory: string | null;
}

interface GroupCommitOptions {
  clock: Clock;
  /** Flushes these directories to disk. Resolves with the ones that failed, along with their errors. */
  sync: (directories: readonly string[]) => Promise<ReadonlyMap<string, unknown>>;
  /**
   * Writes the entries in one transaction, and resolves once they are on disk. If it fails, none of them was
   * written.
   */
  commit: (entries: ReadonlyMap<string, string | null>) => Promise<void>;
  /**
   * Called with the error when writing starts to fail (or fails in a new way), and with null once it works
   * again.
   */
  onHealth: (failure: WaybillError | null) => void;
  /** The timeout for `add`, in milliseconds. */
  timeoutMs: number;
}

interface Waiting extends Addition {
  resolve: () => void;
  reject: (error: unknown) => void;
}

const retryEveryMs = 5_000;

/**
 * Writes entries in the background and combines many of them into one transaction. Only one transaction is in
 * progress at a time, and whatever comes in meanwhile goes into the next one. On most disks, this raises the
 * throughput from a few hundred entries per second to about 10,000.
 *
 * Use `set` for things that have already happened. It is retried until it succeeds, and if a key is set
 * several times, only the last value counts. Use `add` for requests that are only accepted once they are on
 * disk. It fails for good if its transaction fails or the disk does not respond in time.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #changes = new Map<string, Change>();
  #additions: Waiting[] = [];
  /** Callers of `flushed` that are still waiting. */
  #settling: (() => void)[] = [];
  #working: Promise<void> | undefined;
  #retry: Timer | undefined;
  #failure: WaybillError | null = null;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
  }

  set(key: string, change: Change): void {
    this.#changes.set(key, change);
    if (this.#failure === null) this.#begin();
  }

  /**
   * Resolves once the entry is on disk. Throws the errors of `sync` and `commit`, or `queue_unavailable`
   * after `timeoutMs`. Even after a failure, the entry might still get written, unless its key is `set`
   * afterwards.
   */
  add(addition: Addition): Promise<void> {
    const { clock, timeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = clock.timeout(timeoutMs, () => {
        this.#additions = this.#additions.filter((one) => one !== waiting);
        const error = unanswered(timeoutMs);
        this.#note(error);
        reject(error);
      });
      const waiting: Waiting = {
        ...addition,
        resolve: () => {
          timer.cancel();
          resolve();
        },
        reject: (error) => {
          timer.cancel();
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      };
      this.#additions.push(waiting);
      this.#begin();
    });
  }

  /** Resolves once all earlier `set` calls have been written to disk, however long that takes. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#settling.push(resolve);
      if (this.#failure === null) this.#begin();
    });
  }

  /** The most recent failure, or null if writing has succeeded since. */
  get failure(): WaybillError | null {
    return this.#failure;
  }

  /**
   * Waits for up to `withinMs` milliseconds, and resolves with true if everything has been written. Do not
   * call `set` or `add` after this.
   */
  async close(withinMs: number): Promise<boolean> {
    this.#retry?.cancel();
    this.#begin();
    if (this.#working !== undefined) await waitAtMost(this.#options.clock, withinMs, this.#working);
    this.#retry?.cancel();
    return this.#isEmpty && this.#working === undefined;
  }

  get #isEmpty(): boolean {
    return this.#changes.size === 0 && this.#additions.length === 0 && this.#settling.length === 0;
  }

  #begin(): void {
    if (this.#working !== undefined || this.#isEmpty) return;
    this.#retry?.cancel();
    this.#retry = undefined;
    this.#working = this.#work();
  }

  /**
   * Writes until there is nothing left to write. `#working` is cleared in the same turn in which that is
   * noticed, so an entry that is set right after a write is never overlooked. Never rejects.
   */
  async #work(): Promise<void> {
    try {
      while (!this.#isEmpty) {
        await endOfTurn();
        if (!(await this.#writeAll())) return;
      }
    } finally {
      this.#working = undefined;
    }
  }

  /** Returns true if the next transaction should start right away. */
  async #writeAll(): Promise<boolean> {
    const changes = new Map(this.#changes);
    const additions = this.#additions;
    const settling = this.#settling;
    this.#changes.clear();
    this.#additions = [];
    this.#settling = [];
    try {
      await this.#write(changes, additions);
      for (const resolve of settling) resolve();
      return true;
    } catch (error) {
      this.#note(error instanceof WaybillError ? error : unwritten(error));
      for (const { reject } of additions) reject(this.#failure);
      for (const [key, change] of changes) if (!this.#changes.has(key)) this.#changes.set(key, change);
      this.#settling.unshift(...settling);
      this.#retry = this.#options.clock.timeout(retryEveryMs, () => this.#begin(), { unref: true });
      // Do not make later additions wait for the retry, because their callers are waiting for them.
      return this.#additions.length > 0;
    }
  }

  async #write(changes: ReadonlyMap<string, Change>, additions: readonly Waiting[]): Promise<void> {
    // Compute all values in one go, before the first await, so that entries that changed together are written
    // in the same state. Later changes go into the next transaction.
    const entries = new Map<string, string | null>();
    for (const [key, change] of changes) entries.set(key, change === null ? null : change());
    const made = additions.map((addition) => ({ addition, value: addition.value() }));
    const directories = additions.flatMap(({ directory }) => (directory === null ? [] : [directory]));
    const failed =
      directories.length === 0 ? new Map<string, unknown>() : await this.#options.sync(directories);
    const written: Waiting[] = [];
    for (const { addition, value } of made) {
      if (addition.directory !== null && failed.has(addition.directory)) {
        addition.reject(failed.get(addition.directory));
      } else {
        entries.set(addition.key, value);
        written.push(addition);
      }
    }
    if (entries.size > 0) await this.#options.commit(entries);
    this.#note(null);
    for (const { resolve } of written) resolve();
  }

  #note(failure: WaybillError | null): void {
    const isNews = failure?.code !== this.#failure?.code;
    this.#failure = failure;
    if (isNews) this.#options.onHealth(failure);
  }
}

function unanswered(ms: number): WaybillError {
  return new WaybillError('queue_unavailable', `the disk of the queue has not answered for ${ms / 1000} s`, {
    hint: 'try again later; the log of the daemon has the details',
  });
}

function unwritten(cause: unknown): WaybillError {
  return new WaybillError('queue_unavailable', 'the queue cannot be written', {
    cause,
    hint: 'try again later; the log of the daemon has the details',
  });
}
