import { randomUUID } from 'node:crypto';
import { isRecord } from '../../core/lib/json-document.ts';
import type { Log } from '../../core/lib/log.ts';
import {
  type Claim,
  compareAge,
  maxUndelivered,
  redeliveryRunning,
  type Undelivered,
  type UndeliveredEntry,
  type UndeliveredEvents,
} from '../../core/notify/outbox.ts';
import {
  type DeliveryNote,
  type FailedDeliveries,
  type FailedDelivery,
  noFailedDeliveries,
  withNote,
} from '../queue/run-record.ts';
import type { RedisLink } from './link.ts';
import { pairsOf } from './scripts.ts';
import { isEvent, jsonOf } from './shapes.ts';

interface RedisUndeliveredOptions {
  link: RedisLink;
  log: Log;
  /** Once it aborts, events that could not be stored are given up. */
  signal: AbortSignal;
  onDropped: (notifierId: string, count: number) => void;
}

/** If a host dies during a redelivery, other hosts have to wait this long, in milliseconds. */
const claimLifeMs = 15_000;

/**
 * Stores the undelivered events of all hosts in Redis. While Redis is unreachable, new events wait in memory.
 */
export class RedisUndelivered implements UndeliveredEvents {
  readonly #options: RedisUndeliveredOptions;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: RedisUndeliveredOptions) {
    this.#options = options;
  }

  /** Stores the event. Writes happen one at a time, so that the order is preserved. */
  store(notifierId: string, undelivered: Undelivered): Promise<void> {
    return (this.#writing = this.#writing.then(() => this.#write(notifierId, undelivered)));
  }

  /** Resolves once every event so far is stored or given up. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async list(notifierId: string): Promise<Undelivered[]> {
    const { link } = this.#options;
    const found = await link.ask(() => link.redis.hvals(link.key(`undelivered:${notifierId}`)));
    const entries = found.flatMap(entriesOf).sort(compareAge);
    return entries.map(({ undelivered }) => undelivered);
  }

  async remove(notifier: string, event: string): Promise<void> {
    await this.#options.link.run('events/remove', { notifier, event });
  }

  async counts(): Promise<ReadonlyMap<string, number>> {
    const found = pairsOf(await this.#options.link.list('events/counts', {}));
    return new Map(found.map(([notifier, count]) => [notifier, Number(count)]));
  }

  async claim(notifier: string): Promise<Claim> {
    const { link } = this.#options;
    const owner = randomUUID();
    const extend = (lifeMs: number): Promise<unknown> =>
      link.run('events/claim', { notifier, owner, lifeMs });
    if ((await extend(claimLifeMs)) !== 1) throw redeliveryRunning(notifier);
    // If Redis is unreachable for longer than this, two hosts may send the same event, with the same id.
    const heartbeat = link.clock.every(
      claimLifeMs / 3,
      () => void extend(claimLifeMs).catch(() => undefined),
    );
    return {
      release: async () => {
        heartbeat.cancel();
        await extend(0).catch(() => undefined);
      },
    };
  }

  async #write(notifier: string, undelivered: Undelivered): Promise<void> {
    const { link, log, signal, onDropped } = this.#options;
    const { id, timestamp, type } = undelivered.event;
    const args = { notifier, event: id, happened: Date.parse(timestamp), limit: maxUndelivered };
    const text = JSON.stringify(undelivered);
    try {
      const droppedCount = await link.untilAvailable(signal, () =>
        link.run('events/keep', { ...args, undelivered: text }),
      );
      if (Number(droppedCount) > 0) onDropped(notifier, Number(droppedCount));
    } catch (error) {
      const fields = { notifier, event_id: id, event_type: type, err: error };
      log.error(fields, 'an undelivered event could not be kept');
    }
  }
}

/** Parses an undelivered event. Returns an empty list if another program has overwritten it. */
function entriesOf(text: string): UndeliveredEntry[] {
  const space = text.indexOf(' ');
  const seq = Number(text.slice(0, space));
  const undelivered = jsonOf(text.slice(space + 1));
  return isRecord(undelivered) && isEvent(undelivered['event'])
    ? [{ seq, undelivered: undelivered as unknown as Undelivered }]
    : [];
}

/**
 * Implements `JobQueue.noteDelivery` in Redis. Failed deliveries are stored next to the record rather than in
 * it, because the worker overwrites the whole record on every save. Each save then merges them back in.
 */
export async function noteDelivery(link: RedisLink, runId: string, note: DeliveryNote): Promise<void> {
  for (;;) {
    const before = (await link.ask(() => link.redis.hget(link.key(`run:${runId}`), 'deliveries'))) ?? '';
    const next = withNote(before === '' ? noFailedDeliveries : membersOf(before), note);
    if (next === null) return;
    if ((await link.run('runs/note', { runId, before, after: textOf(next) })) === 1) return;
  }
}

// Formats the members of the record as JSON without the braces, for `withDeliveries` in `shared.lua`.
function textOf({ failed_deliveries, failed_deliveries_omitted }: FailedDeliveries): string {
  return JSON.stringify({ failed_deliveries, failed_deliveries_omitted }).slice(1, -1);
}

function membersOf(text: string): FailedDeliveries {
  const value = jsonOf(`{${text}}`);
  const list = isRecord(value) ? value['failed_deliveries'] : null;
  if (!Array.isArray(list) || !list.every(isRecord)) return noFailedDeliveries;
  const omitted = Number(isRecord(value) && value['failed_deliveries_omitted']);
  return { failed_deliveries: list as unknown as FailedDelivery[], failed_deliveries_omitted: omitted || 0 };
}
