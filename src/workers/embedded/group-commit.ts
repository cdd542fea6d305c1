import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** What becomes of an entry: its new value, made when it is written; null removes it. */
export type Change = (() => string) | null;

export interface Addition {
  key: string;
  value: () => string;
  /** A directory whose content must be durable before the entry is; null if there is none. */
  directory: string | null;
}

export interface GroupCommitOptions {
  clock: Clock;
  /** Makes the content of these directories durable. Resolves with those that failed, and why. */
  sync: (directories: readonly string[]) => Promise<ReadonlyMap<string, unknown>>;
  /** Resolves once all of it is durable; after a failure nothing of it is written. */
  commit: (entries: ReadonlyMap<string, string | null>) => Promise<void>;
  /** Called when writing fails, once for each kind of failure, and with null once all is well again. */
  onHealth: (failure: WaybillError | null) => void;
  /** How long an addition may take to become durable, in milliseconds. */
  patienceMs: number;
}

interface Waiting extends Addition {
  resolve: () => void;
  reject: (error: unknown) => void;
}

const retryEveryMs = 5_000;

/**
 * Writes entries behind the callers' back, many in one transaction: one is under way at a time, and what
 * comes in meanwhile makes up the next. On most disks that is the difference between some hundred entries a
 * second and some ten thousand.
 *
 * `set` takes what is true already: it is tried until it is written, and only the last value counts. `add`
 * takes what becomes true by being written: it fails for good with the transaction that it is part of, or if
 * the disk does not answer.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #changes = new Map<string, Change>();
  #additions: Waiting[] = [];
  /** Those who wait until what was set before is durable. */
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
   * Resolves once the entry is durable. Rejects if it is not: with what `sync` or `commit` failed with, or
   * `queue_unavailable` after `patienceMs`. It may then be written still, until its key is `set`.
   */
  add(addition: Addition): Promise<void> {
    const { clock, patienceMs } = this.#options;
    return new Promise((resolve, reject) => {
      const patience = clock.timeout(patienceMs, () => {
        this.#additions = this.#additions.filter((one) => one !== waiting);
        const error = unanswered(patienceMs);
        this.#note(error);
        reject(error);
      });
      const waiting: Waiting = {
        ...addition,
        resolve: () => {
          patience.cancel();
          resolve();
        },
        reject: (error) => {
          patience.cancel();
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      };
      this.#additions.push(waiting);
      this.#begin();
    });
  }

  /** Resolves once all that was set until now is durable; it is waited for as long as that takes. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#settling.push(resolve);
      if (this.#failure === null) this.#begin();
    });
  }

  /** The last failure, if nothing was written since. */
  get failure(): WaybillError | null {
    return this.#failure;
  }

  /**
   * Resolves with whether everything is written, after at most `withinMs` milliseconds. Nothing may be set or
   * added any more.
   */
  async close(withinMs: number): Promise<boolean> {
    this.#retry?.cancel();
    this.#begin();
    await new Promise<void>((resolve) => {
      const timeout = this.#options.clock.timeout(withinMs, resolve);
      void this.#working?.finally(() => {
        timeout.cancel();
        resolve();
      });
      if (this.#working === undefined) {
        timeout.cancel();
        resolve();
      }
    });
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
   * Never rejects. It is over in the very step that finds nothing left: whoever goes on when an entry is
   * written, and sets the next one then, begins anew.
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

  /** Whether to go on at once. */
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
      // What was added meanwhile is tried at once: somebody waits for the answer.
      return this.#additions.length > 0;
    }
  }

  async #write(changes: ReadonlyMap<string, Change>, additions: readonly Waiting[]): Promise<void> {
    // All values at once, before anything is awaited: what changes later comes with the next transaction, and
    // of two entries that changed together none may be newer here than the other.
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
