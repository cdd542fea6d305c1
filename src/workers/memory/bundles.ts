import type { Clock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishJob } from '../queue/job.ts';
import type { KeptBundles } from '../queue/job-queue.ts';
import {
  beyondLimits,
  isKept,
  type KeepLimits,
  type KeptBundle,
  stagedBytes,
  withoutBundle,
} from '../queue/kept-bundles.ts';
import type { Journal, StoredRun } from './journal.ts';

interface BundlesOptions<Run> {
  clock: Clock;
  log: Log;
  journal: Journal;
  limits: KeepLimits;
  /** Removes a job's staged files. */
  discard: (job: PublishJob) => Promise<void>;
  /** Called when an ended run's bundle is no longer kept. The callee writes that to the journal. */
  onGone: (run: Run) => void;
}

/** How long closing waits for removals in progress, in milliseconds. */
const closeTimeoutMs = 5_000;

/**
 * The runs' staged bundles. A bundle belongs to one run at a time: first to an unfinished run, then (within
 * the limits) to the ended run so that it can be rerun, then to the rerun. A bundle is removed only after the
 * journal records that it is unused. Therefore no run lacks its bundle after the process is killed.
 */
export class Bundles<Run extends StoredRun> {
  readonly #options: BundlesOptions<Run>;
  /** Ended runs with a kept bundle, in the order in which they ended. */
  readonly #kept = new Map<string, Run>();
  /** Total size of the kept bundles in bytes. */
  #bytes = 0;
  readonly #retention: Retention<Run>;
  readonly #leaving = new Set<Promise<void>>();

  constructor(options: BundlesOptions<Run>) {
    const { clock, limits } = options;
    this.#options = options;
    this.#retention = new Retention({
      clock,
      retentionMs: limits.keepMs,
      onExpire: async (run) => this.#dropKept(run),
    });
  }

  /** The kept bundles of ended runs. */
  get kept(): KeptBundles {
    return { bundles: this.#kept.size, bytes: this.#bytes };
  }

  /** Called when a run ended `ageMs` ago. Keeps or removes its bundle. */
  ended(run: Run, ageMs = 0): void {
    if (run.bundle !== 'staged') return;
    if (!isKept(run.job, run.record)) {
      this.#drop(run);
      return;
    }
    this.#put(run);
    this.#retention.keep(run, ageMs);
    for (const { run: oldest } of beyondLimits(this.#oldestFirst(), this.kept, this.#options.limits))
      this.#dropKept(oldest);
  }

  /**
   * Detaches the run's bundle, if any, so that another run can own it. Returns a function that undoes this if
   * the other run is not accepted.
   */
  handOver(run: Run): () => void {
    const { job } = run;
    if (run.bundle === 'none') return () => undefined;
    this.#take(run);
    run.bundle = 'gone';
    run.job = withoutBundle(job);
    return () => {
      run.bundle = 'staged';
      run.job = job;
      this.#put(run);
      const inOrder = [...this.#kept].sort(([, a], [, b]) => endOf(a).localeCompare(endOf(b)));
      this.#kept.clear();
      for (const [runId, one] of inOrder) this.#kept.set(runId, one);
    };
  }

  /** Called when a run is forgotten. The caller removes its staged files. */
  forgotten(run: Run): void {
    this.#take(run);
  }

  /** Drops expired bundles. */
  expire(): void {
    this.#retention.expire();
  }

  /** Waits up to a few seconds for removals in progress. The next startup completes the others. */
  async close(): Promise<void> {
    await this.#retention.close();
    if (this.#leaving.size === 0) return;
    const enough = new AbortController();
    const timeout = this.#options.clock.sleep(closeTimeoutMs, enough.signal).catch(() => undefined);
    await Promise.race([timeout, Promise.all(this.#leaving)]);
    enough.abort();
  }

  #dropKept(run: Run): void {
    if (this.#take(run)) this.#drop(run);
  }

  #put(run: Run): void {
    this.#kept.set(run.job.runId, run);
    this.#bytes += stagedBytes(run.job);
  }

  /** Returns true if the bundle was kept. */
  #take(run: Run): boolean {
    if (!this.#kept.delete(run.job.runId)) return false;
    this.#bytes -= stagedBytes(run.job);
    return true;
  }

  *#oldestFirst(): Generator<KeptBundle & { run: Run }> {
    for (const [runId, run] of this.#kept) yield { runId, bytes: stagedBytes(run.job), run };
  }

  #drop(run: Run): void {
    const { journal, onGone } = this.#options;
    run.bundle = 'gone';
    onGone(run);
    const settled = journal.settled();
    const leaving: Promise<void> = (
      settled === null ? this.#remove(run) : settled.then(() => this.#remove(run))
    ).finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  /** Never rejects. */
  async #remove(run: Run): Promise<void> {
    const { log, discard } = this.#options;
    const { job } = run;
    run.job = withoutBundle(job);
    await discard(job).catch((error: unknown) =>
      log.error({ run_id: job.runId, err: error }, 'the staged files of a run could not be removed'),
    );
  }
}

const endOf = ({ record }: StoredRun): string => record.finished_at ?? '';

interface RetentionOptions<T> {
  clock: Clock;
  /** How long an item is kept, in milliseconds. */
  retentionMs: number;
  /** Called once for each expired item. Must not reject. */
  onExpire: (item: T) => Promise<void>;
}

// Timers longer than 24.8 days fire immediately.
const maxSleepMs = 3_600_000;

/** Keeps each item for the same time, then passes it to `onExpire`. */
export class Retention<T> {
  readonly #options: RetentionOptions<T>;
  /** In order of expiry. Times are monotonic milliseconds. */
  readonly #kept: { item: T; expiresAt: number }[] = [];
  readonly #expiring = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #sweeping: Promise<void> | undefined;

  constructor(options: RetentionOptions<T>) {
    this.#options = options;
  }

  /** @param ageMs How long the item has already been kept. Items must be added in order of expiry. */
  keep(item: T, ageMs = 0): void {
    const { clock, retentionMs } = this.#options;
    const leftMs = Math.min(Math.max(retentionMs - ageMs, 0), retentionMs);
    this.#kept.push({ item, expiresAt: clock.monotonic() + leftMs });
    this.#sweeping ??= this.#sweep();
  }

  /** Passes on the expired items. Called before items are read, so that readers never see an expired one. */
  expire(): void {
    const now = this.#options.clock.monotonic();
    const kept = this.#kept.findIndex(({ expiresAt }) => expiresAt > now);
    for (const { item } of this.#kept.splice(0, kept === -1 ? this.#kept.length : kept)) {
      const work: Promise<void> = this.#options.onExpire(item).finally(() => this.#expiring.delete(work));
      this.#expiring.add(work);
    }
  }

  /** Stops expiring. Resolves once no `onExpire` call is in progress. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#sweeping, ...this.#expiring]);
  }

  /** Wakes up when the next item expires, so that items expire even if nothing reads them. */
  async #sweep(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#closing;
    for (let [next] = this.#kept; next !== undefined && !signal.aborted; [next] = this.#kept) {
      const pauseMs = Math.min(Math.max(next.expiresAt - clock.monotonic(), 0), maxSleepMs);
      await clock.sleep(pauseMs, signal).catch(() => undefined);
      if (!isAborted(signal)) this.expire();
    }
    this.#sweeping = undefined;
  }
}

// This is a function because the compiler would otherwise assume that the loop's check still holds.
const isAborted = (signal: AbortSignal): boolean => signal.aborted;
