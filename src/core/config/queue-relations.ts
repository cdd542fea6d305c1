import type { Fault } from './schema/findings.ts';
import type { KeyPath } from './yaml-text.ts';

const place: KeyPath = ['server', 'queue'];

/** What is not right with the Redis of `server.queue`, as it stands in the document. Pure. */
export function queueFaults(queue: Readonly<Record<string, unknown>>): Fault[] {
  if (queue['driver'] !== 'bullmq') return [];
  const [one, several] = [queue['redis_url_env'], queue['redis_url_envs']];
  if (one === undefined && several === undefined)
    return [
      {
        severity: 'error',
        code: 'missing_key',
        path: [...place, 'redis_url_env'],
        at: place,
        part: 'value',
        message:
          'is missing; expected the name of the environment variable with the URL of Redis, or redis_url_envs with those of several',
      },
    ];
  if (one !== undefined && several !== undefined)
    return [
      {
        severity: 'error',
        code: 'invalid_value',
        path: [...place, 'redis_url_env'],
        part: 'key',
        message: 'cannot be set beside redis_url_envs; expected one of the two: put the name into the list',
      },
    ];
  const names = Array.isArray(several) ? several : [];
  return names.flatMap((name, index): Fault[] =>
    names.indexOf(name) === index
      ? []
      : [
          {
            severity: 'error',
            code: 'duplicate_id',
            path: [...place, 'redis_url_envs', index],
            part: 'value',
            message: 'is in the list already; each Redis is named once',
          },
        ],
  );
}
