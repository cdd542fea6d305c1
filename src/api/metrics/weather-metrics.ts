import type { Definer } from './definer.ts';

export interface WeatherMetrics {
  weatherRejected(family: string, reason: string): void;
  /** `asOf` is null if there is no data. */
  weatherAnswered(family: string, answer: { stale: boolean; asOf: Date | null }): void;
  weatherStoodIn(family: string): void;
}

/**
 * Creates the counters for weather requests. The `family` label uses the names from `weather.stale_after`.
 */
export function weatherMetrics({ counter, gauge }: Definer): WeatherMetrics {
  const rejected = counter(
    'waybill_weather_rejected_total',
    'Invalid fields and records of the weather tables, each counted once.',
    ['family', 'reason'],
  );
  const stale = counter('waybill_weather_stale_answers_total', 'Responses with stale data.', ['family']);
  const servedStale = counter(
    'waybill_weather_stand_in_answers_total',
    'Last good responses that were served while the database was unreachable.',
    ['family'],
  );
  const isStale = gauge('waybill_weather_stale', '1 if the data of the last response was stale, else 0.', [
    'family',
  ]);
  const asOf = gauge(
    'waybill_weather_data_timestamp_seconds',
    'Time at which the newest data that was served was measured, issued or fetched.',
    ['family'],
  );
  const newest = new Map<string, number>();
  return {
    weatherRejected: (family, reason) => rejected.inc({ family: label(family), reason }),
    weatherStoodIn: (family) => servedStale.inc({ family: label(family) }),
    weatherAnswered: (name, answer) => {
      const family = label(name);
      if (answer.asOf === null) return;
      isStale.set({ family }, answer.stale ? 1 : 0);
      if (answer.stale) stale.inc({ family });
      const seconds = answer.asOf.getTime() / 1000;
      if (seconds <= (newest.get(family) ?? -Infinity)) return;
      newest.set(family, seconds);
      asOf.set({ family }, seconds);
    },
  };
}

function label(family: string): string {
  return family.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
