import type { Clock, Timer } from '../../core/lib/clock.ts';
import {
  type ChangePage,
  type ChangeQuery,
  cursorOf,
  placeOf,
  RunChanges,
  RunWaiters,
  type RunWatch,
} from '../queue/run-changes.ts';
import type { RunRecord } from '../queue/run-record.ts';
import type { RedisLink } from './link.ts';
import type { RedisClient } from './redis-client.ts';
import { optionalRecord, type RunReads } from './run-reads.ts';

/**
 * The number of runs whose latest changes are kept in memory. Watchers that have fallen further behind read
 * from Redis.
 */
const maxKept = 1_000;
/** How often the feed checks for missed changes, because a dead subscription can look healthy. */
const checkMs = 5_000;

/**
 * Notifies this process's watchers when a run changes on any host. It keeps the queue's latest changes in
 * memory as long as there are watchers. Each change then costs one message per host, no matter how many
 * watchers there are. Revisions are consecutive, so a gap means that a message was lost. The feed re-reads
 * from Redis after a gap, after a reconnect, and when no message has arrived for a while.
 */
export class RunFeed {
  readonly #link: RedisLink;
  readonly #reads: RunReads;
  /** Every change is published on this channel as `<revision> <record>`. */
  readonly #channel: string;
  readonly #watchers = new Set<() => void>();
  /** null until the first watcher subscribes and the first read completes. */
  #changes: RunChanges | null = null;
  /** The highest revision announced by any message so far. */
  #newestSeen = 0;
  #reading: Promise<void> | undefined;
  #subscriber: RedisClient | undefined;
  #check: Timer | undefined;
  #isClosed = false;

  constructor(link: RedisLink, reads: RunReads) {
    this.#link = link;
    this.#reads = reads;
    this.#channel = link.key('changes');
  }

  /** See `JobQueue.watch`. */
  watch(onChange: () => void): RunWatch {
    const notify = (): void => onChange();
    this.#watchers.add(notify);
    if (this.#watchers.size === 1) this.#begin();
    return {
      cursor: async () => cursorOf(await this.#upToDate()),
      after: (cursor, query) => this.#after(cursor, query),
      close: () => {
        if (this.#watchers.delete(notify) && this.#watchers.size === 0) this.#end();
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watchers.clear();
    this.#end();
    await this.#reading?.catch(() => undefined);
  }

  async #after(cursor: string, query: ChangeQuery): Promise<ChangePage | null> {
    const place = placeOf(cursor);
    const changes = this.#changes ?? (await this.#upToDate());
    if (place?.epoch !== changes.epoch || place.revision > changes.revision) return null;
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
          ? [{ cursor: cursorOf({ epoch, revision: change.revision }), record: change.record }]
          : [],
      ),
      cursor: cursorOf({ epoch, revision: last }),
      more: changes.length === limit,
    };
  }

  /** Catches up with Redis and returns the changes in memory. */
  async #upToDate(): Promise<RunChanges> {
    await this.#catchUp();
    if (this.#changes === null) throw new TypeError('no watcher is registered');
    return this.#changes;
  }

  #begin(): void {
    if (this.#subscriber === undefined) {
      this.#subscriber = this.#link.another();
      this.#subscriber.on('message', (_channel: string, text: string) => this.#onMessage(text));
      // Subscribe on every connection, since automatic resubscription is turned off in `redis-client.ts`.
      this.#subscriber.on('ready', () => this.#subscribe());
    } else if (this.#subscriber.status === 'ready') this.#subscribe();
    this.#check = this.#link.clock.every(checkMs, () => this.#catchUpLater(), { unref: true });
  }

  #subscribe(): void {
    if (this.#watchers.size === 0) return;
    // Catch up on changes published before we subscribed. This only fails if the connection does.
    void this.#subscriber
      ?.subscribe(this.#channel)
      // The read in progress may have started before we subscribed.
      .then(() => this.#reading)
      .then(() => this.#catchUp())
      .catch(() => undefined);
  }

  #end(): void {
    this.#check?.cancel();
    this.#changes = null;
    this.#newestSeen = 0;
    if (this.#subscriber?.status === 'ready')
      void this.#subscriber.unsubscribe(this.#channel).catch(() => undefined);
  }

  #onMessage(text: string): void {
    const revision = Number(text.slice(0, text.indexOf(' ')));
    // Any program can publish to this channel.
    if (!Number.isSafeInteger(revision)) return;
    this.#newestSeen = Math.max(this.#newestSeen, revision);
    const changes = this.#changes;
    if (changes === null || this.#reading !== undefined || revision <= changes.revision) return;
    const record = optionalRecord(text.slice(text.indexOf(' ') + 1));
    if (revision === changes.revision + 1 && record !== null) {
      this.#add(changes, record, revision);
      this.#notify();
    } else this.#catchUpLater();
  }

  /** Reads the changes that this process is missing. Concurrent calls share a single read. */
  #catchUp(): Promise<void> {
    return (this.#reading ??= this.#readNewest().finally(() => {
      this.#reading = undefined;
      // A message arrived too late to be part of the last read.
      if (this.#changes !== null && this.#newestSeen > this.#changes.revision) this.#catchUpLater();
    }));
  }

  /** Like `#catchUp`, without a caller. If it fails, the next check repeats it. */
  #catchUpLater(): void {
    void this.#catchUp().catch(() => undefined);
  }

  async #readNewest(): Promise<void> {
    const [known, heard] = [this.#changes, this.#newestSeen];
    const found = await this.#reads.changes(known?.revision ?? null, maxKept);
    if (this.#isClosed || this.#watchers.size === 0) return;
    // Redis restarted and lost its latest changes.
    if (this.#newestSeen === heard) this.#newestSeen = Math.min(heard, found.revision);
    const isLater = known?.epoch === found.epoch && known.revision <= found.revision;
    if (known !== null && known === this.#changes && isLater && found.changes.length < maxKept) {
      for (const { revision, record } of found.changes)
        if (record !== null) this.#add(known, record, revision);
      known.skipTo(found.revision);
      if (found.changes.length === 0) return;
    } else this.#changes = new RunChanges(found);
    this.#notify();
  }

  #add(changes: RunChanges, record: RunRecord, revision: number): void {
    changes.add(record, revision);
    if (changes.size > maxKept) changes.forgetOldest();
  }

  #notify(): void {
    for (const notify of [...this.#watchers]) notify();
  }
}

const pollMs = 200;

/**
 * Waits for runs to finish, on whichever host they run. Polls Redis five times per second while there are
 * callers waiting. A single call covers all the runs being waited for. A subscription wouldn't be reliable
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
      const ended = signal.aborted ? runIds : await this.#finishedOf(runIds).catch(() => []);
      for (const runId of ended) this.#waiters.finished(runId);
      if (this.#waiters.runIds.length > 0) await this.#clock.sleep(pollMs, signal).catch(() => undefined);
    }
  }
}
