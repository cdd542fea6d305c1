import { isRecord } from '../../core/lib/json-document.ts';
import type { PublishJob, Trigger } from '../queue/job.ts';
import type {
  FailedDelivery,
  RunDestination,
  RunProgress,
  RunRecord,
  RunStatus,
} from '../queue/run-record.ts';

/*
 * Checks values from Redis, which another program may have overwritten. The API and the console show records
 * as they are, so a value of another type would make every page that lists the run fail.
 */

type Check = (value: unknown) => boolean;

/** Parses a value from Redis as JSON. Returns undefined if it is not valid JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const count: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const time: Check = (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value));
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
/** The check of a field that may be missing, for example because the record is from an earlier version. */
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

/** The names come from a type, so that the compiler notices if one is missing. */
function oneOf<T extends string>(names: Record<T, true>): Check {
  return (value) => typeof value === 'string' && Object.hasOwn(names, value);
}

/** Each row is a check and the fields that have to pass it. Unknown fields are allowed. */
function object(...rows: [check: Check, ...fields: string[]][]): Check {
  return (value) =>
    isRecord(value) && rows.every(([check, ...fields]) => fields.every((field) => check(value[field])));
}

const error = object(
  [text, 'code', 'message'],
  [flag, 'retryable'],
  [optional(orNull(text)), 'hint'],
  [optional(listOf(isRecord)), 'findings'],
);
const action = oneOf<RunDestination['action']>({
  publish_new: true,
  upsert_additive: true,
  replace_catalog: true,
  skip_same: true,
  force_replace: true,
  fail_unmanaged: true,
  fail_conflict: true,
  error: true,
});
const fate = oneOf<RunDestination['changes'][number]['fate']>({
  add: true,
  change: true,
  keep: true,
  refresh: true,
  remove: true,
});
const destination = object(
  [text, 'destination_id'],
  [action, 'action'],
  [orNull(text), 'destination_path'],
  [orNull(error), 'error'],
  [optional(orNull(text)), 'release', 'url'],
  [optional(orNull(time)), 'finished_at'],
  [optional(count), 'outputs_written', 'outputs_linked', 'outputs_kept', 'outputs_removed'],
  [optional(count), 'bytes_written', 'bytes_linked', 'bytes_kept', 'changes_omitted'],
  [optional(orNull(object([text, 'code', 'message']))), 'reason'],
  [optional(listOf(object([text, 'path', 'why'], [fate, 'fate']))), 'changes'],
);
const counts: [Check, ...string[]] = [count, 'outputs_done', 'outputs_total', 'bytes_done', 'bytes_total'];
const progress = object(
  [oneOf<RunProgress['stage']>({ preparing: true, writing: true, committing: true }), 'stage'],
  counts,
  [optional(listOf(object([text, 'destination_id'], counts))), 'destinations'],
);
const delivery = object(
  [text, 'notifier_id', 'event_id', 'event_type'],
  [count, 'tries'],
  [oneOf<FailedDelivery['status']>({ retrying: true, given_up: true, delivered: true }), 'status'],
  [orNull(text), 'last_error'],
  [orNull(time), 'next_try_at'],
  [time, 'updated_at'],
);
const triggerKind = oneOf<RunRecord['triggered_by']['kind']>({
  upload: true,
  request: true,
  schedule: true,
  watch: true,
});
const revision = object([orNull(text), 'message', 'commit', 'branch', 'author']);
const publisher = object(
  [text, 'publisher_id', 'claims_digest'],
  [orNull(text), 'subject', 'repository', 'ref', 'sha', 'ci_run_id'],
);

/** Returns true if this is a record, possibly of an earlier version. */
export const isRunRecord = object(
  [text, 'run_id', 'pipeline_id'],
  [
    oneOf<RunStatus>({ accepted: true, queued: true, running: true, succeeded: true, failed: true }),
    'status',
  ],
  [time, 'accepted_at'],
  [orNull(time), 'queued_at', 'started_at', 'finished_at'],
  [listOf(destination), 'destinations'],
  [listOf(object([orNull(text), 'destination_id'], [text, 'code', 'message'])), 'warnings'],
  [orNull(error), 'error'],
  [orNull(progress), 'progress'],
  [orNull((value) => isRecord(value) && Object.values(value).every(count)), 'summary'],
  [optional(orNull(text)), 'rerun_of', 'channel', 'bundle_path', 'trace_id'],
  [optional(flag), 'rerunnable'],
  [optional(orNull(revision)), 'revision'],
  [optional(orNull(publisher)), 'published_by'],
  [
    optional(object([triggerKind, 'kind'], [orNull(time), 'tick'], [optional(orNull(text)), 'token_id'])),
    'triggered_by',
  ],
  [optional(count), 'attempt', 'failed_deliveries_omitted'],
  [optional(orNull(time)), 'next_try_at', 'retry_until'],
  [optional(orNull(error)), 'last_error'],
  [optional(listOf(delivery)), 'failed_deliveries'],
);

/** Checks that a value has the fields needed to sort and send an event. */
export const isEvent = object([isRecord, 'data'], [text, 'id', 'type', 'timestamp']);

const isTick = object([text, 'tick', 'schedule']);
const isChange = object([text, 'state']);

export function isTrigger(value: unknown): value is Trigger {
  if (!isRecord(value)) return false;
  return value['kind'] === 'schedule' ? isTick(value) : value['kind'] === 'watch' && isChange(value);
}

const isStaged = object([text, 'staged', 'bundlePath']);
const isJob = object(
  [text, 'runId', 'pipelineId'],
  [optional(text), 'rerunOf', 'channel', 'begunAt', 'tokenId', 'traceparent', 'tracestate', 'description'],
  [optional(revision), 'revision'],
  [optional(publisher), 'publishedBy'],
  [optional(isTrigger), 'trigger'],
  [optional(object([text, 'name', 'digest'], [count, 'size'])), 'archive'],
  [optional(count), 'bytes'],
);

/** Returns the value as a job, or null if it does not look like one. */
export function asJob(value: unknown): PublishJob | null {
  const isWhole = isRecord(value) && isJob(value) && (value['staged'] === null || isStaged(value));
  return isWhole ? (value as unknown as PublishJob) : null;
}
