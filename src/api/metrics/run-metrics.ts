import type { RunResult } from '../../core/publish/results/result.ts';
import type { RunObserver } from '../../workers/run-observer.ts';
import type { Definer } from './definer.ts';

const runBuckets = [0.05, 0.2, 1, 5, 20, 60, 300, 1200, 3600];
const waitBuckets = [0.01, 0.1, 1, 5, 20, 60, 300, 1200, 3600];

export interface DeliveryMetrics {
  /** Records the outcome of one event at one notifier, after the last try. */
  recordDelivery(delivery: { notifierId: string; delivered: boolean }): void;
}

export interface RunMetrics extends RunObserver {
  /** Records a run that was cancelled before its turn had come. */
  cancelled(pipelineId: string): void;
}

/** What is counted of runs, by pipeline, and of their publications, by destination. */
export function runMetrics(define: Definer, pipelineIds: readonly string[]): RunMetrics {
  const { counter, histogram } = define;
  const runs = counter(
    'waybill_runs_total',
    'Runs that ended after their turn had come, or were cancelled before.',
    ['pipeline', 'status'],
  );
  const runSeconds = histogram(
    'waybill_run_duration_seconds',
    'How long runs took.',
    ['pipeline'],
    runBuckets,
  );
  const waitSeconds = histogram(
    'waybill_run_queue_seconds',
    'How long runs waited for their turn.',
    ['pipeline'],
    waitBuckets,
  );
  const recordPublications = publicationMetrics(define);
  for (const pipeline of pipelineIds)
    for (const status of ['succeeded', 'failed', 'cancelled']) runs.inc({ pipeline, status }, 0);
  return {
    started: ({ pipelineId, waitedSeconds }) => waitSeconds.observe({ pipeline: pipelineId }, waitedSeconds),
    cancelled: (pipeline) => runs.inc({ pipeline, status: 'cancelled' }),
    finished: ({ pipelineId, seconds, succeeded, cancelled, result }) => {
      const status = succeeded ? 'succeeded' : cancelled ? 'cancelled' : 'failed';
      runs.inc({ pipeline: pipelineId, status });
      runSeconds.observe({ pipeline: pipelineId }, seconds);
      if (result !== null) recordPublications(result.run);
    },
  };
}

function publicationMetrics({ counter }: Definer): (run: RunResult) => void {
  const labels = ['pipeline', 'destination', 'action'];
  const publications = counter(
    'waybill_publications_total',
    'Bundles at destinations, by what was done.',
    labels,
  );
  const written = counter('waybill_outputs_written_total', 'Outputs that were written.', labels);
  const kept = counter(
    'waybill_outputs_kept_total',
    'Published outputs whose bytes stayed as they were.',
    labels,
  );
  const removed = counter('waybill_outputs_removed_total', 'Outputs that were removed.', labels);
  const bytes = counter('waybill_published_bytes_total', 'Bytes of outputs that were written.', [
    'pipeline',
    'destination',
  ]);
  const keptBytes = counter('waybill_kept_bytes_total', 'Bytes of published outputs that stayed.', [
    'pipeline',
    'destination',
  ]);
  return ({ pipelines }) => {
    for (const { pipelineId, destinations } of pipelines) {
      for (const { destinationId, actions, error } of destinations) {
        const place = { pipeline: pipelineId, destination: destinationId };
        if (error !== null) publications.inc({ ...place, action: 'error' });
        for (const result of actions) {
          const { action } = result;
          publications.inc({ ...place, action });
          written.inc({ ...place, action }, result.outputsWritten);
          kept.inc({ ...place, action }, result.outputsKept);
          removed.inc({ ...place, action }, result.outputsRemoved);
          bytes.inc(place, result.bytesWritten);
          keptBytes.inc(place, result.bytesKept);
        }
      }
    }
  };
}

export function deliveryMetrics({ counter }: Definer): DeliveryMetrics {
  const deliveries = counter('waybill_event_deliveries_total', 'Events, after the last try.', [
    'notifier',
    'result',
  ]);
  return {
    recordDelivery: ({ notifierId, delivered }) =>
      deliveries.inc({ notifier: notifierId, result: delivered ? 'delivered' : 'failed' }),
  };
}
