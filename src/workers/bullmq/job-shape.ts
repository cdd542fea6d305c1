import type { PublishJob, Trigger } from '../queue/job.ts';

/**
 * Parses a Redis value as JSON. Returns undefined if it is not JSON, because another program may have
 * replaced it.
 */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isArchive = (value: unknown): boolean =>
  isObject(value) && isText(value['name']) && isText(value['digest']) && isCount(value['size']);

/** Reports whether a value has the event fields that are needed to sort and send it. */
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

/** Fields that a job may lack, each with its check. */
const optional: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...{ rerunOf: isText, channel: isText, begunAt: isText, tokenId: isText },
  ...{ traceparent: isText, tracestate: isText, revision: isObject, publishedBy: isObject },
  ...{ trigger: isTrigger, archive: isArchive, bytes: isCount, description: isText },
};

/** Returns the value as a job, or null if it has a different shape. */
export function asJob(value: unknown): PublishJob | null {
  if (!isObject(value) || !isText(value['runId']) || !isText(value['pipelineId'])) return null;
  const { staged } = value;
  if (staged !== null && !(isText(staged) && isText(value['bundlePath']))) return null;
  for (const [name, isRight] of Object.entries(optional))
    if (value[name] !== undefined && !isRight(value[name])) return null;
  return value as unknown as PublishJob;
}
