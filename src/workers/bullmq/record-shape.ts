import type {
  FailedDelivery,
  RunDestination,
  RunProgress,
  RunRecord,
  RunStatus,
} from '../queue/run-record.ts';

/*
 * Checks the fields of run records from Redis. The API and the console show records as they are, so a value
 * of another type would make every page that lists the run fail.
 */

type Check = (value: unknown) => boolean;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const text: Check = (value) => typeof value === 'string';
const flag: Check = (value) => typeof value === 'boolean';
const count: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const time: Check = (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value));
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

/** The names come from a type, so that the compiler notices if one is missing. */
function oneOf<T extends string>(names: Record<T, true>): Check {
  return (value) => typeof value === 'string' && Object.hasOwn(names, value);
}

/** `optional` has the fields that records of earlier versions may lack. Unknown fields are allowed. */
function object(required: Record<string, Check>, optional: Record<string, Check> = {}): Check {
  const [needed, added] = [Object.entries(required), Object.entries(optional)];
  return (value) =>
    isObject(value) &&
    needed.every(([name, check]) => check(value[name])) &&
    added.every(([name, check]) => value[name] === undefined || check(value[name]));
}

const error = object(
  { code: text, message: text, retryable: flag },
  { hint: orNull(text), findings: listOf(isObject) },
);
const warning = object({ destination_id: orNull(text), code: text, message: text });
const fates = oneOf<RunDestination['changes'][number]['fate']>({
  ...{ add: true, change: true, keep: true, refresh: true, remove: true },
});
const destination = object(
  {
    destination_id: text,
    action: oneOf<RunDestination['action']>({
      ...{ publish_new: true, upsert_additive: true, replace_catalog: true, skip_same: true },
      ...{ force_replace: true, fail_unmanaged: true, fail_conflict: true, error: true },
    }),
    destination_path: orNull(text),
    error: orNull(error),
  },
  {
    ...{ release: orNull(text), url: orNull(text), finished_at: orNull(time), changes_omitted: count },
    ...{ outputs_written: count, outputs_linked: count, outputs_kept: count, outputs_removed: count },
    ...{ bytes_written: count, bytes_linked: count, bytes_kept: count },
    reason: orNull(object({ code: text, message: text })),
    changes: listOf(object({ path: text, fate: fates, why: text })),
  },
);
const counts = { outputs_done: count, outputs_total: count, bytes_done: count, bytes_total: count };
const progress = object(
  {
    stage: oneOf<RunProgress['stage']>({ preparing: true, writing: true, committing: true }),
    ...counts,
  },
  { destinations: listOf(object({ destination_id: text, ...counts })) },
);
const delivery = object({
  ...{ notifier_id: text, event_id: text, event_type: text, tries: count },
  status: oneOf<FailedDelivery['status']>({ retrying: true, given_up: true, delivered: true }),
  ...{ last_error: orNull(text), next_try_at: orNull(time), updated_at: time },
});
const trigger = object(
  {
    kind: oneOf<RunRecord['triggered_by']['kind']>({
      upload: true,
      request: true,
      schedule: true,
      watch: true,
    }),
    tick: orNull(time),
  },
  { token_id: orNull(text) },
);

/** The revision of a run's files, as in records and jobs. */
export const isRevision: Check = object({
  ...{ message: orNull(text), commit: orNull(text), branch: orNull(text), author: orNull(text) },
});

/** The trusted publisher of a run, as in records and jobs. */
export const isPublisher: Check = object({
  ...{ publisher_id: text, subject: orNull(text), repository: orNull(text), ref: orNull(text) },
  ...{ sha: orNull(text), ci_run_id: orNull(text), claims_digest: text },
});

/** Returns true if this is a record, possibly of an earlier version. */
export const isRecord: Check = object(
  {
    ...{ run_id: text, pipeline_id: text, accepted_at: time },
    status: oneOf<RunStatus>({ accepted: true, queued: true, running: true, succeeded: true, failed: true }),
    ...{ queued_at: orNull(time), started_at: orNull(time), finished_at: orNull(time) },
    ...{ destinations: listOf(destination), warnings: listOf(warning), error: orNull(error) },
    progress: orNull(progress),
    summary: orNull((value) => isObject(value) && Object.values(value).every(count)),
  },
  {
    ...{ rerun_of: orNull(text), channel: orNull(text), bundle_path: orNull(text), rerunnable: flag },
    ...{ revision: orNull(isRevision), published_by: orNull(isPublisher), triggered_by: trigger },
    ...{ attempt: count, next_try_at: orNull(time), retry_until: orNull(time), last_error: orNull(error) },
    ...{ trace_id: orNull(text), failed_deliveries: listOf(delivery), failed_deliveries_omitted: count },
  },
);
