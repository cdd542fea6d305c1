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

interface RunFeedOptions {
  clock: Clock;
  link: RedisLink;
  reads: Pick<RunReads, 'changes'>;
  /** The Redis channel on which every change is published as `<revision> <record>`. */
  channel: string;
}

/** Notifies this process's watchers when a run changes on any host. */
export interface RunFeed {
  /** See `JobQueue.watch`. */
  watch(onChange: () => void): RunWatch;
  close(): Promise<void>;
}

/**
 * The number of runs whose latest changes are kept in memory. Watchers that have fallen further behind read
 * from Redis.
 */
const maxKept = 1_000;
/** How often the feed checks for missed changes, because a dead subscription can look healthy. */
const checkMs = 5_000;

/**
 * Keeps the queue's latest changes in memory as long as there are watchers. Each change then costs one
 * message per host, no matter how many watchers there are. Revisions are consecutive, so a gap means that a
 * message was lost. The feed re-reads from Redis after a gap, after a reconnect, and when no message has
 * arrived for a while.
 */
export function runFeed(options: RunFeedOptions): RunFeed {
  return new RedisRunFeed(options);
}

class RedisRunFeed implements RunFeed {
  readonly #options: RunFeedOptions;
  readonly #watchers = new Set<() => void>();
  /** null until the first watcher subscribes and the first read completes. */
  #changes: RunChanges | null = null;
  /** The highest revision announced by any message so far. */
  #newestSeen = 0;
  #reading: Promise<void> | undefined;
  #subscriber: RedisClient | undefined;
  #check: Timer | undefined;
  #isClosed = false;

  constructor(options: RunFeedOptions) {
    this.#options = options;
  }

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
    const found = await this.#options.reads.changes(revision, limit);
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
    const { clock, link, channel } = this.#options;
    if (this.#subscriber === undefined) {
      const subscriber = link.another();
      subscriber.on('message', (_channel: string, text: string) => this.#onMessage(text));
      // Subscribe on every connection, since automatic resubscription is turned off in `redis-client.ts`.
      subscriber.on('ready', () => this.#subscribe(subscriber, channel));
      subscriber.connect().catch(() => undefined);
      this.#subscriber = subscriber;
    } else if (this.#subscriber.status === 'ready') this.#subscribe(this.#subscriber, channel);
    this.#check = clock.every(checkMs, () => void this.#catchUp().catch(() => undefined), { unref: true });
  }

  #subscribe(subscriber: RedisClient, channel: string): void {
    if (this.#watchers.size === 0) return;
    // Catch up on changes published before we subscribed. This only fails if the connection does.
    void subscriber
      .subscribe(channel)
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
      void this.#subscriber.unsubscribe(this.#options.channel).catch(() => undefined);
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
    } else void this.#catchUp().catch(() => undefined);
  }

  /** Reads the changes that this process is missing. Concurrent calls share a single read. */
  #catchUp(): Promise<void> {
    return (this.#reading ??= this.#readNewest().finally(() => {
      this.#reading = undefined;
      // A message arrived too late to be part of the last read.
      if (this.#changes !== null && this.#newestSeen > this.#changes.revision)
        void this.#catchUp().catch(() => undefined);
    }));
  }

  async #readNewest(): Promise<void> {
    const [known, heard] = [this.#changes, this.#newestSeen];
    const found = await this.#options.reads.changes(known?.revision ?? null, maxKept);
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

/** Waits for runs to finish, on whichever host they run. */
export interface FinishPoll {
  /** See `JobQueue.untilFinished`. */
  wait(runId: string, signal: AbortSignal): Promise<void>;
  /** Ends all waits, and resolves once no query is in flight. */
  close(): Promise<void>;
}

const pollMs = 200;

/**
 * Polls Redis five times per second while there are callers waiting. A single call covers all the runs being
 * waited for. A subscription wouldn't be reliable here, because it can silently lose the message that a run
 * finished. Callers keep waiting while Redis is unreachable.
 *
 * @param finishedOf Returns which of the given runs are finished or unknown.
 */
export function finishPoll(
  clock: Clock,
  finishedOf: (runIds: readonly string[]) => Promise<string[]>,
): FinishPoll {
  const waiters = new RunWaiters();
  const closing = new AbortController();
  let polling: Promise<void> | undefined;

  async function poll(): Promise<void> {
    for (let runIds = waiters.runIds; runIds.length > 0; runIds = waiters.runIds) {
      const ended = isClosing() ? runIds : await finishedOf(runIds).catch(() => []);
      for (const runId of ended) waiters.finished(runId);
      if (waiters.runIds.length > 0) await clock.sleep(pollMs, closing.signal).catch(() => undefined);
    }
  }

  function begin(): void {
    polling ??= poll().finally(() => {
      polling = undefined;
      // A caller may have started waiting after the last poll.
      if (waiters.runIds.length > 0) begin();
    });
  }

  const isClosing = (): boolean => closing.signal.aborted;
  return {
    wait: (runId, signal) => {
      const waited = waiters.wait(runId, signal);
      begin();
      return waited;
    },
    close: async () => {
      closing.abort();
      await polling;
    },
  };
}
