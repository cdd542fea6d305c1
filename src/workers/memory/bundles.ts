import { type Clock, waitAtMost } from '../../core/lib/clock.ts';
import {
  isBundleRetained,
  type RetainedBundle,
  selectEvictions,
  stagedBytes,
  withoutBundle,
} from '../queue/bundle-retention.ts';
import type { BundleUsage } from '../queue/job-queue.ts';
import type { QueueOptions } from '../queue/queue-options.ts';
import type { Journal, StoredRun } from './journal.ts';

interface BundlesOptions<Run> extends Pick<Required<QueueOptions>, 'clock' | 'log' | 'keep' | 'discard'> {
  journal: Journal;
  /** Called when a finished run's bundle is no longer kept, so that this can be written to the journal. */
  onDelete: (run: Run) => void;
}

/** The time that `close` waits for deletions in progress, in milliseconds. */
const closeTimeoutMs = 5_000;

/**
 * Manages the staged bundles of all runs. A bundle belongs to one run at a time. At first, that is the run it
 * was uploaded for. If the limits allow, the run keeps it after finishing, so that it can be rerun. The rerun
 * then takes the bundle over. Bundles are only deleted after the journal has recorded that they are not
 * needed. That way, no run ends up without its bundle if the process gets killed.
 */
export class Bundles<Run extends StoredRun> {
  readonly #options: BundlesOptions<Run>;
  /** Finished runs that still have their bundles, in the order in which they finished. */
  readonly #kept = new Map<string, Run>();
  /** The total size of the kept bundles, in bytes. */
  #bytes = 0;
  readonly #retention: Retention<Run>;
  readonly #deletions = new Set<Promise<void>>();

  constructor(options: BundlesOptions<Run>) {
    const { clock, keep } = options;
    this.#options = options;
    const onExpire = async (run: Run): Promise<void> => this.#dropKept(run);
    this.#retention = new Retention({ clock, retentionMs: keep.keepMs, onExpire });
  }

  /** The number and size of the bundles kept for finished runs. */
  get usage(): BundleUsage {
    return { bundles: this.#kept.size, bytes: this.#bytes };
  }

  /**
   * Called when a run has finished. `ageMs` is how long ago that was. Keeps the bundle if the limits allow.
   */
  retain(run: Run, ageMs = 0): void {
    if (run.bundle !== 'staged') return;
    if (!isBundleRetained(run.job, run.record)) {
      this.#drop(run);
      return;
    }
    this.#put(run);
    this.#retention.keep(run, ageMs);
    for (const { run: oldest } of selectEvictions(this.#oldestFirst(), this.usage, this.#options.keep))
      this.#dropKept(oldest);
  }

  /**
   * Takes the bundle away from a run, so that another run can have it. Returns a function that gives it back,
   * in case the other run is not accepted.
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

  /** Called when a run is deleted. Deleting its staged files is up to the caller. */
  forget(run: Run): void {
    this.#take(run);
  }

  /** Deletes the bundles that have been kept long enough. */
  expire(): void {
    this.#retention.expire();
  }

  /** Waits up to a few seconds for deletions in progress. Any others are completed at the next startup. */
  async close(): Promise<void> {
    await this.#retention.close();
    if (this.#deletions.size === 0) return;
    await waitAtMost(this.#options.clock, closeTimeoutMs, Promise.all(this.#deletions));
  }

  #dropKept(run: Run): void {
    if (this.#take(run)) this.#drop(run);
  }

  #put(run: Run): void {
    this.#kept.set(run.job.runId, run);
    this.#bytes += stagedBytes(run.job);
  }

  /** Stops keeping the bundle. Returns false if it was not kept in the first place. */
  #take(run: Run): boolean {
    if (!this.#kept.delete(run.job.runId)) return false;
    this.#bytes -= stagedBytes(run.job);
    return true;
  }

  *#oldestFirst(): Generator<RetainedBundle & { run: Run }> {
    for (const [runId, run] of this.#kept) yield { runId, bytes: stagedBytes(run.job), run };
  }

  #drop(run: Run): void {
    const { journal, onDelete } = this.#options;
    run.bundle = 'gone';
    onDelete(run);
    const settled = journal.flushed();
    const leaving: Promise<void> = (
      settled === null ? this.#remove(run) : settled.then(() => this.#remove(run))
    ).finally(() => this.#deletions.delete(leaving));
    this.#deletions.add(leaving);
  }

  /** Deletes a run's bundle. Never rejects. */
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
  /** How long each item is kept, in milliseconds. */
  retentionMs: number;
  /** Called once for every item that expires. Must not reject. */
  onExpire: (item: T) => Promise<void>;
}

// Node.js fires timers immediately if they are set to more than 24.8 days.
const maxSleepMs = 3_600_000;

/** Keeps every item for the same amount of time and then passes it to `onExpire`. */
export class Retention<T> {
  readonly #options: RetentionOptions<T>;
  /** Sorted by expiry time, in milliseconds of the monotonic clock. */
  readonly #kept: { item: T; expiresAt: number }[] = [];
  readonly #expiring = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #sweeping: Promise<void> | undefined;

  constructor(options: RetentionOptions<T>) {
    this.#options = options;
  }

  /**
   * @param ageMs How long the item has been kept already. Items must be added in the order in which they
   * expire.
   */
  keep(item: T, ageMs = 0): void {
    const { clock, retentionMs } = this.#options;
    const leftMs = Math.min(Math.max(retentionMs - ageMs, 0), retentionMs);
    this.#kept.push({ item, expiresAt: clock.monotonic() + leftMs });
    this.#sweeping ??= this.#sweep();
  }

  /** Expires whatever is due. Call this before reading items, so that readers do not see any expired ones. */
  expire(): void {
    const now = this.#options.clock.monotonic();
    const firstRetained = this.#kept.findIndex(({ expiresAt }) => expiresAt > now);
    for (const { item } of this.#kept.splice(0, firstRetained === -1 ? this.#kept.length : firstRetained)) {
      const work: Promise<void> = this.#options.onExpire(item).finally(() => this.#expiring.delete(work));
      this.#expiring.add(work);
    }
  }

  /** Stops expiring items, and resolves once no call to `onExpire` is in progress. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#sweeping, ...this.#expiring]);
  }

  /** Sleeps until the next item expires. Without this, items would only expire when something reads them. */
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

// A function, because the compiler would otherwise assume that the check in the loop condition still holds.
const isAborted = (signal: AbortSignal): boolean => signal.aborted;
