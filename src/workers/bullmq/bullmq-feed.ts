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
  /** Redis channel that publishes each change as `<revision> <record>`. */
  channel: string;
}

/** Reports changes to runs on any host to the watchers in this process. */
export interface RunFeed {
  /** See `JobQueue.watch`. */
  watch(onChange: () => void): RunWatch;
  close(): Promise<void>;
}

/**
 * The number of runs whose newest changes are kept in memory. Readers that are further behind query Redis.
 */
const maxKept = 1_000;
/** How often the feed checks for missed changes. A dead subscription can look alive. */
const checkMs = 5_000;

/**
 * Keeps the queue's newest changes in memory while there are watchers. A change therefore costs one message
 * per host, regardless of the number of watchers. Revisions have no gaps. The feed reads missing changes from
 * Redis after a gap, after a quiet period, and after a reconnect.
 */
export function runFeed(options: RunFeedOptions): RunFeed {
  return new RedisRunFeed(options);
}

class RedisRunFeed implements RunFeed {
  readonly #options: RunFeedOptions;
  readonly #watchers = new Set<() => void>();
  /** null until the first read after the first watcher subscribed. */
  #changes: RunChanges | null = null;
  /** The newest revision seen in a message. */
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

  /** Reads a page of changes that are no longer in memory. */
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

  /** Returns the changes in memory, after catching up with Redis. */
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
      // Runs on each connection, because ioredis is configured not to resubscribe (`link.ts`).
      subscriber.on('ready', () => this.#subscribe(subscriber, channel));
      subscriber.connect().catch(() => undefined);
      this.#subscriber = subscriber;
    } else if (this.#subscriber.status === 'ready') this.#subscribe(this.#subscriber, channel);
    this.#check = clock.every(checkMs, () => void this.#catchUp().catch(() => undefined), { unref: true });
  }

  #subscribe(subscriber: RedisClient, channel: string): void {
    if (this.#watchers.size === 0) return;
    // Reads the changes published before the subscription. This fails only if the connection does.
    void subscriber
      .subscribe(channel)
      // A read in progress may predate the subscription.
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
    // Any program may publish to the channel.
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

  /** Reads the changes that this host lacks. Concurrent calls share one read. */
  #catchUp(): Promise<void> {
    return (this.#reading ??= this.#readNewest().finally(() => {
      this.#reading = undefined;
      // A message arrived too late to be included in the last read.
      if (this.#changes !== null && this.#newestSeen > this.#changes.revision)
        void this.#catchUp().catch(() => undefined);
    }));
  }

  async #readNewest(): Promise<void> {
    const [known, heard] = [this.#changes, this.#newestSeen];
    const found = await this.#options.reads.changes(known?.revision ?? null, maxKept);
    if (this.#isClosed || this.#watchers.size === 0) return;
    // Redis restarted without its most recent changes.
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

/** Waits for runs that any host may finish. */
export interface FinishPoll {
  /** See `JobQueue.untilFinished`. */
  wait(runId: string, signal: AbortSignal): Promise<void>;
  /** Ends every wait. Resolves once no query is in progress. */
  close(): Promise<void>;
}

const pollMs = 200;

/**
 * Polls Redis five times a second while any caller waits, with one call for all awaited runs. A subscription
 * could lose the message about a finished run without any sign of it. Waits continue while Redis is
 * unreachable.
 *
 * @param finishedOf Returns the given runs that are finished or unknown.
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
      // A caller may have arrived after the last poll.
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
