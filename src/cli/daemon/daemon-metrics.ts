import type { MetricsOptions, ProcessMetrics } from '../../api/metrics/process-metrics.ts';
import { productVersion } from '../../api/version.ts';
import type { Config } from '../../core/config/config.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';

/** Returns what the metrics need to know about the configuration. */
export function metricsOptions({ pipelines, notifiers }: Config): MetricsOptions {
  return {
    version: productVersion(),
    nodeVersion: process.version,
    pipelineIds: pipelines.map(({ id }) => id),
    notifierIds: notifiers.map(({ id }) => id),
    places: pipelines.flatMap(({ id, destinations }) =>
      destinations.map((destination) => ({ pipelineId: id, destinationId: destination.id })),
    ),
  };
}

/** Creates series, at zero, for everything in the new configuration. */
export function expectMetrics(metrics: ProcessMetrics | null, config: Config): void {
  const { pipelineIds, notifierIds, places } = metricsOptions(config);
  metrics?.runs.expect(pipelineIds, places ?? []);
  metrics?.expectDeliveries(notifierIds ?? []);
}

const everyMs = 100;
/** Long enough for clients to notice. */
const longMs = 1_000;

/**
 * Measures, ten times a second, how late a timer fires. During that time, the event loop was busy and could
 * not accept connections. `record` gets each measurement in seconds. Delays of a second or more are also
 * logged, because they are not visible in the duration of requests.
 */
export function watchLoopLag({
  clock,
  log,
  record,
}: {
  clock: Clock;
  log: Log;
  record: (seconds: number) => void;
}): Timer {
  let last = clock.monotonic();
  return clock.every(
    everyMs,
    () => {
      const now = clock.monotonic();
      const lagMs = Math.max(now - last - everyMs, 0);
      last = now;
      record(lagMs / 1000);
      if (lagMs >= longMs)
        log.warn({ ms: Math.round(lagMs) }, 'the event loop was blocked; new connections had to wait');
    },
    { unref: true },
  );
}
