import type { PublishJob, Trigger } from '../queue/job.ts';

/** A value of Redis as JSON, which other programs may have replaced; undefined if it is not JSON. */
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

/** Whether a value has the parts of an event that sorting and sending it need. */
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

/** The fields that a job may lack, with the test of each. */
const optional: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...{ rerunOf: isText, channel: isText, begunAt: isText, tokenId: isText },
  ...{ traceparent: isText, tracestate: isText, revision: isObject, publishedBy: isObject },
  ...{ trigger: isTrigger, archive: isArchive, bytes: isCount, description: isText },
};

/** The value as a job; null if it has another shape. */
export function asJob(value: unknown): PublishJob | null {
  if (!isObject(value) || !isText(value['runId']) || !isText(value['pipelineId'])) return null;
  const { staged } = value;
  if (staged !== null && !(isText(staged) && isText(value['bundlePath']))) return null;
  for (const [name, isRight] of Object.entries(optional))
    if (value[name] !== undefined && !isRight(value[name])) return null;
  return value as unknown as PublishJob;
}
