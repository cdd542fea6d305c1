import type { RunDestination, RunRecord } from './run-record.ts';
import { noFailedDeliveries } from './failed-deliveries.ts';

/** What a record says of its tries before the first has failed. */
export const firstTry = { attempt: 1, next_try_at: null, retry_until: null, last_error: null };

/** A record as it stands in Redis, written by waybill alone. */
export function recordOf(text: string): RunRecord {
  return withLaterFields(JSON.parse(text) as EarlierRecord);
}

type LaterField =
  | 'rerun_of'
  | 'channel'
  | 'rerunnable'
  | 'triggered_by'
  | 'trace_id'
  | keyof typeof firstTry
  | 'failed_deliveries'
  | 'failed_deliveries_omitted';

type LaterOfDestination = 'reason' | 'changes' | 'changes_omitted';
type EarlierDestination = Omit<RunDestination, LaterOfDestination> &
  Partial<Pick<RunDestination, LaterOfDestination>>;

/** As earlier versions wrote it, without the fields that came later. */
export type EarlierRecord = Omit<RunRecord, LaterField | 'destinations'> &
  Partial<Pick<RunRecord, LaterField>> & { destinations: EarlierDestination[] };

export function withLaterFields(record: EarlierRecord): RunRecord {
  const triggeredBy = { kind: 'request' as const, tick: null };
  return {
    ...{ rerun_of: null, channel: null, rerunnable: false, triggered_by: triggeredBy, trace_id: null },
    ...firstTry,
    ...noFailedDeliveries,
    ...record,
    destinations: record.destinations.map((one) => ({ ...noChanges, ...one })),
  };
}

const noChanges = { reason: null, changes: [], changes_omitted: 0 };
