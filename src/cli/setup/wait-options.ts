import { WaybillError } from '../../core/lib/errors.ts';
import { parseDuration } from '../../core/lib/settings/units.ts';

/** Whether and how long a command waits for the run that it has started, as commander parses it. */
export interface WaitFlags {
  wait: boolean;
  timeout?: string;
}

/** In milliseconds; undefined: as long as it takes. Throws `usage`. */
export function timeoutOf({ timeout }: WaitFlags): number | undefined {
  if (timeout === undefined) return undefined;
  const ms = parseDuration(timeout);
  if (ms !== undefined) return ms;
  throw new WaybillError('usage', `--timeout "${timeout}" is no duration`, {
    hint: 'give one like 90s or 10m',
  });
}
