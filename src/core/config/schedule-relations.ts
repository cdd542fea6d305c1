import type { Fault } from './schema/findings.ts';
import type { KeyPath } from './yaml-text.ts';

/** Each of these says something about another setting, without which it means nothing. */
const companions = {
  timezone: 'schedule',
  catch_up: 'schedule',
  jitter: 'schedule',
  settle: 'watch',
} as const;

/**
 * What of a pipeline starts runs by itself, held against the kind of its source. Works on the raw document,
 * as `relations.ts` does. Pure.
 */
export function scheduleFaults(pipeline: unknown, path: KeyPath): Fault[] {
  if (typeof pipeline !== 'object' || pipeline === null) return [];
  const settings = pipeline as Record<string, unknown>;
  const has = (key: string): boolean => settings[key] !== undefined && settings[key] !== false;
  const source = settings['source'];
  const backend =
    typeof source === 'object' && source !== null && 'backend' in source ? source.backend : undefined;
  const faults = (['schedule', 'watch'] as const).flatMap((key) => {
    const reason = has(key) ? unfit(key, backend) : null;
    return reason === null ? [] : [fault([...path, key], reason)];
  });
  const alone = Object.entries(companions).flatMap(([key, needed]) =>
    has(key) && !has(needed)
      ? [
          fault(
            [...path, key],
            `it says something about ${needed}, which is not set; set ${needed}, or leave it out`,
          ),
        ]
      : [],
  );
  return [...faults, ...alone];
}

function unfit(key: 'schedule' | 'watch', backend: unknown): string | null {
  if (backend === 'http_upload')
    return `an http_upload source has nothing to read: its runs start with uploads; leave ${key} out, or give the pipeline a source of its own`;
  if (key === 'watch' && typeof backend === 'string' && backend !== 'local')
    return `only a source with backend: local can be watched, and this is ${backend}; use schedule: "*/5 * * * *" instead`;
  return null;
}

function fault(path: KeyPath, message: string): Fault {
  return { severity: 'error', code: 'invalid_value', path, part: 'value', message };
}
