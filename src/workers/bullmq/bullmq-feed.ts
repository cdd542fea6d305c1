import type { Clock } from '../../core/lib/clock.ts';
import {
  type ChangePage,
  type ChangeQuery,
  formatCursor,
  parseCursor,
  RunChanges,
  RunWaiters,
  type RunWatch,
} from '../queue/run-changes.ts';
import type { RunReads } from './run-reads.ts';

/**
 * The number of runs whose latest changes are kept in memory. Watchers that have fallen further behind read
 * from Redis.
 */
const maxKept = 1_000;
const changePollMs = 50;
const finishPollMs = 200;

/**
 * Notifies this process's watchers when a run changes on any host. While there are watchers, it polls Redis
 * for changes 20 times per second and keeps the latest ones in memory, so the cost does not depend on the
 * number of watchers. A subscription would need the same reads, because it can silently lose messages.
 */
export class RunFeed {
  readonly #clock: Clock;
  readonly #reads: RunReads;
  readonly #watchers = new Set<() => void>();
  readonly #closing = new AbortController();
  /** null until the first read completes, and while there are no watchers. */
  #changes: RunChanges | null = null;
  #reading: Promise<void> | undefined;
  #polling: Promise<void> | undefined;

  constructor(clock: Clock, reads: RunReads) {
    this.#clock = clock;
    this.#reads = reads;
  }

  /** See `JobQueue.watch`. */
  watch(onChange: () => void): RunWatch {
    // Wrap the callback, because a caller may pass the same function twice.
    const notify = (): void => onChange();
    this.#watchers.add(notify);
    this.#polling ??= this.#poll();
    return {
      cursor: async () => formatCursor(await this.#upToDate()),
      after: (cursor, query) => this.#after(cursor, query),
      close: () => void this.#watchers.delete(notify),
    };
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    this.#closing.abort();
    await this.#polling;
    await this.#reading?.catch(() => undefined);
  }

  async #after(cursor: string, query: ChangeQuery): Promise<ChangePage | null> {
    const place = parseCursor(cursor);
    let changes = this.#changes ?? (await this.#upToDate());
    if (place?.epoch !== changes.epoch) return null;
    // The cursor may be from another host, which has seen later changes.
    if (place.revision >= changes.revision) changes = await this.#upToDate();
    if (place.epoch !== changes.epoch || place.revision > changes.revision) return null;
    return changes.after(place.revision, query) ?? (await this.#read(place.revision, query));
  }

  /** Reads a page of changes that are too old to be in memory. */
  async #read(revision: number, { limit, wants }: ChangeQuery): Promise<ChangePage | null> {
    const found = await this.#reads.changes(revision, limit);
    if (found.horizon > revision) return null;
    const { epoch, changes } = found;
    const last = changes.at(-1)?.revision ?? revision;
    return {
      changes: changes.flatMap((change) =>
        change.record !== null && wants(change.record)
          ? [{ cursor: formatCursor({ epoch, revision: change.revision }), record: change.record }]
          : [],
      ),
      cursor: formatCursor({ epoch, revision: last }),
      more: changes.length === limit,
    };
  }

  /** Returns the changes in memory, once they include everything that has changed before this call. */
  async #upToDate(): Promise<RunChanges> {
    await this.#reading?.catch(() => undefined);
    await this.#catchUp();
    if (this.#changes === null) throw new TypeError('no watcher is registered');
    return this.#changes;
  }

  async #poll(): Promise<void> {
    const { signal } = this.#closing;
    while (this.#watchers.size > 0 && !signal.aborted) {
      await this.#catchUp().catch(() => undefined);
      await this.#clock.sleep(changePollMs, signal).catch(() => undefined);
    }
    this.#changes = null;
    this.#polling = undefined;
  }

  /** Reads the changes that this process is missing. Concurrent calls share a single read. */
  #catchUp(): Promise<void> {
    return (this.#reading ??= this.#readNewest().finally(() => (this.#reading = undefined)));
  }

  async #readNewest(): Promise<void> {
    const known = this.#changes;
    const found = await this.#reads.changes(known?.revision ?? null, maxKept);
    if (this.#watchers.size === 0) return;
    // Otherwise, Redis has lost its latest changes.
    const isLater = known?.epoch === found.epoch && known.revision <= found.revision;
    if (known !== null && known === this.#changes && isLater && found.changes.length < maxKept) {
      for (const { revision, record } of found.changes) {
        if (record !== null) known.add(record, revision);
        if (known.size > maxKept) known.forgetOldest();
      }
      known.skipTo(found.revision);
      if (found.changes.length === 0) return;
    } else this.#changes = new RunChanges(found);
    for (const notify of [...this.#watchers]) notify();
  }
}

/**
 * Waits for runs to finish, on whichever host they run. Polls Redis five times per second while there are
 * callers waiting. A single call covers all the runs being waited for. A subscription would not be reliable
 * here, because it can silently lose the message that a run finished. Callers keep waiting while Redis is
 * unreachable.
 */
export class FinishPoll {
  readonly #clock: Clock;
  readonly #finishedOf: (runIds: readonly string[]) => Promise<string[]>;
  readonly #waiters = new RunWaiters();
  readonly #closing = new AbortController();
  #polling: Promise<void> | undefined;

  /** @param finishedOf Returns which of the given runs are finished or unknown. */
  constructor(clock: Clock, finishedOf: (runIds: readonly string[]) => Promise<string[]>) {
    this.#clock = clock;
    this.#finishedOf = finishedOf;
  }

  /** See `JobQueue.untilFinished`. */
  wait(runId: string, signal: AbortSignal): Promise<void> {
    const waited = this.#waiters.wait(runId, signal);
    this.#begin();
    return waited;
  }

  /** Ends all waits, and resolves once no query is in flight. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#polling;
  }

  #begin(): void {
    this.#polling ??= this.#poll().finally(() => {
      this.#polling = undefined;
      // A caller may have started waiting after the last poll.
      if (this.#waiters.runIds.length > 0) this.#begin();
    });
  }

  async #poll(): Promise<void> {
    const { signal } = this.#closing;
    for (let runIds = this.#waiters.runIds; runIds.length > 0; runIds = this.#waiters.runIds) {
      const finishedIds = signal.aborted ? runIds : await this.#finishedOf(runIds).catch(() => []);
      for (const runId of finishedIds) this.#waiters.finished(runId);
      if (this.#waiters.runIds.length > 0)
        await this.#clock.sleep(finishPollMs, signal).catch(() => undefined);
    }
  }
}
