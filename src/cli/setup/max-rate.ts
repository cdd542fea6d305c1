import { WaybillError } from '../../core/lib/errors.ts';
import { parseRate, rateForm } from '../../core/lib/settings/transfer-rate.ts';
import type { ChosenPipeline } from './set-up.ts';

/**
 * Parses the `--max-rate` option, in bytes per second. Returns undefined if it is absent. Throws a `usage`
 * error if it is invalid.
 */
export function maxRateOf({ maxRate }: { maxRate?: string }): number | undefined {
  const bytes = maxRate === undefined ? undefined : parseRate(maxRate);
  if (maxRate === undefined || bytes !== undefined) return bytes;
  throw new WaybillError('usage', `--max-rate: "${maxRate}" is not ${rateForm}`, {
    hint: 'write it like 2MiB/s',
  });
}

/** Replaces the rate limits of destinations with this one. */
export function withMaxRate(
  chosen: readonly ChosenPipeline[],
  maxRate: number | undefined,
): readonly ChosenPipeline[] {
  if (maxRate === undefined) return chosen;
  return chosen.map(({ pipeline, destinations }) => ({
    pipeline: {
      ...pipeline,
      destinations: pipeline.destinations.map((destination) => ({ ...destination, maxRate })),
    },
    destinations,
  }));
}
