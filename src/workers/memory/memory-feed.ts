import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { formatCursor, parseCursor, RunChanges, type RunWatch } from '../queue/run-changes.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { isStageChange } from '../queue/run-transitions.ts';

/** The minimum time between two progress reports within the same stage. */
const pauseMs = 200;

/** Notifies watchers of changes to this process's runs. */
export class RunFeed {
  readonly #clock: Clock;
  readonly #changes = new RunChanges({ epoch: randomBytes(6).toString('hex'), revision: 0 });
  readonly #watchers = new Set<() => void>();
  /** The latest records whose progress has not been reported yet, by run id. */
  readonly #delayed = new Map<string, RunRecord>();
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Reports a changed record. If nothing but its progress has changed since `before`, there may be a short
   * delay.
   */
  publish(record: RunRecord, before: RunRecord | null = null): void {
    if (before === null || isStageChange(before, record)) {
      this.#delayed.delete(record.run_id);
      if (this.#changes.add(record)) this.#notify();
      return;
    }
    this.#delayed.set(record.run_id, record);
    this.#timer ??= this.#clock.timeout(pauseMs, () => this.#publishDelayed(), { unref: true });
  }

  remove(runId: string): void {
    this.#changes.forget(runId);
  }

  /** See `JobQueue.watch`. */
  watch(onChange: () => void): RunWatch {
    // Wrap the callback, because a caller may pass the same function twice.
    const notify = (): void => onChange();
    this.#watchers.add(notify);
    const changes = this.#changes;
    return {
      cursor: async () => formatCursor(changes),
      after: async (cursor, query) => {
        const place = parseCursor(cursor);
        return place?.epoch === changes.epoch ? changes.after(place.revision, query) : null;
      },
      close: () => void this.#watchers.delete(notify),
    };
  }

  close(): void {
    this.#timer?.cancel();
    this.#watchers.clear();
  }

  #publishDelayed(): void {
    this.#timer = undefined;
    const late = [...this.#delayed.values()];
    this.#delayed.clear();
    for (const record of late) this.#changes.add(record);
    if (late.length > 0) this.#notify();
  }

  #notify(): void {
    for (const notify of [...this.#watchers]) notify();
  }
}
