import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';
import {
  noFailedDeliveries,
  withNote,
  type DeliveryNote,
  type FailedDeliveries,
} from '../queue/run-record.ts';

/**
 * As `JobQueue.noteDelivery`, in Redis. They stand beside the record, which the worker of the run writes as
 * a whole, and come into it whenever it is saved.
 *
 * @param at A key in Redis.
 */
export function deliveryNotes(
  { ask, redis }: Pick<RedisLink, 'ask' | 'redis'>,
  run: RunScript,
  at: (key: string) => string,
): (runId: string, note: DeliveryNote) => Promise<void> {
  return async (runId, note) => {
    for (;;) {
      const before = (await ask(() => redis.hget(at(`run:${runId}`), 'deliveries'))) ?? '';
      const next = withNote(before === '' ? noFailedDeliveries : membersOf(before), note);
      if (next === null) return;
      if ((await run('note', { runId, before, after: textOf(next) })) === 1) return;
    }
  };
}

// Members of a record, as they stand in its JSON: `withDeliveries` in `shared.lua` puts them there.
function textOf({ failed_deliveries, failed_deliveries_omitted }: FailedDeliveries): string {
  return JSON.stringify({ failed_deliveries, failed_deliveries_omitted }).slice(1, -1);
}

function membersOf(text: string): FailedDeliveries {
  return JSON.parse(`{${text}}`) as FailedDeliveries;
}
