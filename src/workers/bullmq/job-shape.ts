import type { PublishJob, Trigger } from '../queue/job.ts';
import { isObject, isPublisher, isRevision } from './record-shape.ts';

/**
 * Parses a value from Redis as JSON. Returns undefined if it isn't valid JSON, which can happen if another
 * program overwrote it.
 */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isArchive = (value: unknown): boolean =>
  isObject(value) && isText(value['name']) && isText(value['digest']) && isCount(value['size']);

/** Checks that a value has the fields needed to sort and send an event. */
export function isEvent(value: unknown): boolean {
  return (
    isObject(value) &&
    isObject(value['data']) &&
    [value['id'], value['type'], value['timestamp']].every(isText)
  );
}

export function isTrigger(value: unknown): value is Trigger {
  if (!isObject(value)) return false;
  const { kind, tick, schedule, state } = value;
  return kind === 'schedule' ? isText(tick) && isText(schedule) : kind === 'watch' && isText(state);
}

/** The optional fields of a job, with the check that each has to pass. */
const optional: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...{ rerunOf: isText, channel: isText, begunAt: isText, tokenId: isText },
  ...{ traceparent: isText, tracestate: isText, revision: isRevision, publishedBy: isPublisher },
  ...{ trigger: isTrigger, archive: isArchive, bytes: isCount, description: isText },
};

/** Returns the value as a job, or null if it doesn't look like one. */
export function asJob(value: unknown): PublishJob | null {
  if (!isObject(value) || !isText(value['runId']) || !isText(value['pipelineId'])) return null;
  const { staged } = value;
  if (staged !== null && !(isText(staged) && isText(value['bundlePath']))) return null;
  for (const [name, isRight] of Object.entries(optional))
    if (value[name] !== undefined && !isRight(value[name])) return null;
  return value as unknown as PublishJob;
}
