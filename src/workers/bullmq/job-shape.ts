import type { PublishJob } from '../queue/job.ts';

/** A value of Redis as JSON, which other programs may have replaced; undefined if it is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An object that waybill stored in Redis as JSON; null if another program has overwritten it. */
export function storedObject(text: string): object | null {
  const value = jsonOf(text);
  return isObject(value) ? value : null;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isTrigger = (value: unknown): boolean =>
  isObject(value) && [value['kind'], value['tick'] ?? value['state']].every(isText);
const isArchive = (value: unknown): boolean =>
  isObject(value) && isText(value['name']) && isText(value['digest']) && isCount(value['size']);

/** The fields that a job may lack, with the test of each. */
const optional: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...{ rerunOf: isText, channel: isText, begunAt: isText, tokenId: isText },
  ...{ traceparent: isText, tracestate: isText, revision: isObject, publishedBy: isObject },
  ...{ trigger: isTrigger, archive: isArchive, bytes: isCount },
};

/** The value as a job; null if it has another shape. Pure. */
export function asJob(value: unknown): PublishJob | null {
  if (!isObject(value) || !isText(value['runId']) || !isText(value['pipelineId'])) return null;
  const { staged } = value;
  if (staged !== null && !(isText(staged) && isText(value['bundlePath']))) return null;
  for (const [name, isRight] of Object.entries(optional))
    if (value[name] !== undefined && !isRight(value[name])) return null;
  return value as unknown as PublishJob;
}
