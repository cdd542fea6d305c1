import { WaybillError } from '../../core/lib/errors.ts';
import { parseRate, rateForm } from '../../core/lib/settings/rate.ts';
import type { Chosen } from './set-up.ts';

/** Returns the bytes per second of `--max-rate`, or undefined if it is not given. Throws `usage`. */
export function maxRateOf({ maxRate }: { maxRate?: string }): number | undefined {
  const bytes = maxRate === undefined ? undefined : parseRate(maxRate);
  if (maxRate === undefined || bytes !== undefined) return bytes;
  throw new WaybillError('usage', `--max-rate: found the text "${maxRate}"; expected ${rateForm}`, {
    hint: 'write it like 2MiB/s',
  });
}

/** Returns the same destinations with this limit instead of their own. */
export function withMaxRate(chosen: readonly Chosen[], maxRate: number | undefined): readonly Chosen[] {
  if (maxRate === undefined) return chosen;
  return chosen.map(({ pipeline, destinations }) => ({
    pipeline: {
      ...pipeline,
      destinations: pipeline.destinations.map((destination) => ({ ...destination, maxRate })),
    },
    destinations,
  }));
}
