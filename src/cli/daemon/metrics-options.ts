import { productVersion } from '../../api/version.ts';
import type { MetricsOptions, ProcessMetrics } from '../../api/metrics/process-metrics.ts';
import type { Config } from '../../core/config/config.ts';

/** What the metrics of this process are made with. */
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

/** Lets the series begin at zero that a reload has added to the configuration. */
export function expectMetrics(metrics: ProcessMetrics | null, config: Config): void {
  const { pipelineIds, notifierIds, places } = metricsOptions(config);
  metrics?.runs.expect(pipelineIds, places ?? []);
  metrics?.expectDeliveries(notifierIds ?? []);
}
