import { productVersion } from '../../api/version.ts';
import type { MetricsOptions } from '../../api/metrics/process-metrics.ts';
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
