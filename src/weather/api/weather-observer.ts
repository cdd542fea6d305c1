import type { Log } from '../../core/lib/log.ts';
import type { FamilyName } from '../families.ts';
import type { Rejection } from '../rows/rejections.ts';
import { reasonOf } from '../../api/http/answer/problem.ts';
import type { WeatherMetrics } from '../../api/metrics/weather-metrics.ts';

/** Learns what becomes of reads, for the log and the metrics. */
export interface WeatherObserver {
  answered(
    family: FamilyName,
    answer: { stale: boolean; asOf: Date | null; rejected: readonly Rejection[] },
  ): void;
  /** A last good answer was given, since the database did not answer. */
  stoodIn(family: FamilyName, error: unknown): void;
}

const mostNamed = 10_000;

/**
 * Counts each bad field of each record once, and names it once in the log, however often it is read; past
 * 10,000 of them it begins anew.
 */
export function newWeatherObserver(log: Log, metrics: WeatherMetrics | null): WeatherObserver {
  const named = new Set<string>();
  return {
    answered(family, { stale, asOf, rejected }) {
      metrics?.weatherAnswered(family, { stale, asOf });
      for (const each of rejected) {
        const { field, reason, record, isLeftOut } = each;
        const name = `${family} ${field} ${reason} ${record}`;
        if (named.has(name)) continue;
        if (named.size >= mostNamed) named.clear();
        named.add(name);
        metrics?.weatherRejected(family, reason);
        const what = isLeftOut ? 'a weather record is left out' : 'a field of a weather record is left out';
        log.warn({ family, field, reason, record }, what);
      }
    },
    stoodIn(family, error) {
      metrics?.weatherStoodIn(family);
      const reason = error instanceof Error ? reasonOf(error) : String(error);
      log.warn({ family, reason }, 'the last good answer stands in');
    },
  };
}
