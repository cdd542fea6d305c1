import { systemClock } from '../../core/lib/clock.ts';
import { isFuture } from '../../core/lib/clock-skew.ts';
import { futureBundle } from '../../core/publish/results/action-result.ts';
import type { DestinationResult, RunResult } from '../../core/publish/results/result.ts';
import type { JobResult } from '../../workers/queue/job.ts';
import type { RunObserver } from '../../workers/queue/run-observer.ts';
import type { Definer } from './definer.ts';

const runBuckets = [0.05, 0.2, 1, 5, 20, 60, 300, 1200, 3600];
const waitBuckets = [0.01, 0.1, 1, 5, 20, 60, 300, 1200, 3600];

export interface DeliveryMetrics {
  /** Records the outcome of one event at one notifier, after the last try. */
  recordDelivery(delivery: { notifierId: string; delivered: boolean }): void;
  /** Creates the series of these notifiers at zero. */
  expectDeliveries(notifierIds: readonly string[]): void;
  /** Records that the oldest undelivered events of a notifier were dropped. */
  undeliveredDropped(notifierId: string, count: number): void;
}

/** One destination of one pipeline. */
export interface Place {
  pipelineId: string;
  destinationId: string;
}

export interface RunMetrics extends RunObserver {
  /** Records a successful publication at `at`. Ignored if a later one is already recorded. */
  succeededAt(place: Place, at: Date): void;
  /** Records a run that was cancelled before it started. */
  cancelled(pipelineId: string): void;
  /** Creates the series of these pipelines and destinations at zero. */
  expect(pipelineIds: readonly string[], places: readonly Place[]): void;
}

/** Creates the metrics of runs by pipeline, and of publications by destination. */
export function runMetrics(
  define: Definer,
  pipelineIds: readonly string[],
  places: readonly Place[] = [],
): RunMetrics {
  const { counter, histogram } = define;
  const runs = counter(
    'waybill_runs_total',
    'Runs that ended after their turn had come, or were cancelled before. Superseded: before their next try.',
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
  const retries = counter(
    'waybill_run_retries_total',
    'Tries of runs that failed for a passing cause and are followed by another one.',
    ['pipeline', 'code'],
  );
  const publications = publicationMetrics(define);
  const succeededAt = successMetric(define);
  const expect: RunMetrics['expect'] = (ids, of) => {
    for (const pipeline of ids)
      for (const status of ['succeeded', 'failed', 'cancelled', 'superseded'])
        runs.inc({ pipeline, status }, 0);
    for (const pipeline of ids) retries.inc({ pipeline, code: 'storage_transient' }, 0);
    publications.expect(of);
  };
  expect(pipelineIds, places);
  const published = (result: JobResult | null): void => {
    if (result === null) return;
    publications.record(result.run);
    for (const place of succeededPlaces(result.run)) succeededAt(place, new Date());
  };
  return {
    expect,
    started: ({ pipelineId, waitedSeconds }) => waitSeconds.observe({ pipeline: pipelineId }, waitedSeconds),
    succeededAt,
    superseded: ({ pipelineId }) => runs.inc({ pipeline: pipelineId, status: 'superseded' }),
    cancelled: (pipeline) => runs.inc({ pipeline, status: 'cancelled' }),
    finished: ({ pipelineId, seconds, succeeded, cancelled, result }) => {
      const status = succeeded ? 'succeeded' : cancelled ? 'cancelled' : 'failed';
      runs.inc({ pipeline: pipelineId, status });
      runSeconds.observe({ pipeline: pipelineId }, seconds);
      published(result);
    },
    retried: ({ record, result }) => {
      retries.inc({ pipeline: record.pipeline_id, code: record.last_error?.code ?? 'internal_error' });
      published(result);
    },
  };
}

/** The time of the last successful publication at each destination, as far as known. */
function successMetric({ gauge }: Definer): RunMetrics['succeededAt'] {
  const last = gauge(
    'waybill_last_success_timestamp_seconds',
    'When a run published to the destination last, or found all of it published.',
    ['pipeline', 'destination'],
  );
  const known = new Map<string, number>();
  return ({ pipelineId, destinationId }, at) => {
    const key = JSON.stringify([pipelineId, destinationId]);
    const seconds = at.getTime() / 1000;
    const before = known.get(key) ?? -Infinity;
    // A time that was recorded while the clock was ahead would hide later failures.
    if (seconds <= before && !isFuture(before * 1000, systemClock)) return;
    known.set(key, seconds);
    last.set({ pipeline: pipelineId, destination: destinationId }, seconds);
  };
}

/** The destinations at which nothing of the run failed. */
function succeededPlaces({ pipelines }: RunResult): Place[] {
  return pipelines.flatMap(({ pipelineId, destinations }) =>
    destinations.filter(hasSucceeded).map(({ destinationId }) => ({ pipelineId, destinationId })),
  );
}

function hasSucceeded({ status, error, actions }: DestinationResult): boolean {
  return status === 'ok' && error === null && actions.every((action) => action.error === null);
}

function publicationMetrics({ counter }: Definer): {
  record: (run: RunResult) => void;
  expect: (places: readonly Place[]) => void;
} {
  const labels = ['pipeline', 'destination', 'action'];
  const publications = counter('waybill_publications_total', 'Bundles at destinations, by action.', labels);
  const written = counter('waybill_outputs_written_total', 'Outputs that were written.', labels);
  const linked = counter(
    'waybill_outputs_linked_total',
    'Outputs that a release got from the one before it.',
    labels,
  );
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
  const linkedBytes = counter(
    'waybill_linked_bytes_total',
    'Bytes of outputs that a release got from the one before it.',
    ['pipeline', 'destination'],
  );
  const keptBytes = counter('waybill_kept_bytes_total', 'Bytes of published outputs that stayed.', [
    'pipeline',
    'destination',
  ]);
  const future = counter(
    'waybill_future_bundles_total',
    'Bundles whose `created` was in the future when they were published: the clock of their producer is ahead.',
    ['pipeline', 'destination'],
  );
  const expect = (places: readonly Place[]): void => {
    for (const { pipelineId: pipeline, destinationId: destination } of places)
      for (const [one, label] of [
        [bytes, {}],
        [linkedBytes, {}],
        [keptBytes, {}],
        [future, {}],
        [publications, { action: 'error' }],
      ] as const)
        one.inc({ pipeline, destination, ...label }, 0);
  };
  const record = ({ pipelines }: RunResult): void => {
    for (const { pipelineId, destinations } of pipelines) {
      for (const { destinationId, actions, warnings } of destinations) {
        const place = { pipeline: pipelineId, destination: destinationId };
        future.inc(place, warnings.filter(({ code }) => code === futureBundle).length);
        for (const result of actions) {
          const { action } = result;
          publications.inc({ ...place, action });
          written.inc({ ...place, action }, result.outputsWritten);
          linked.inc({ ...place, action }, result.outputsLinked);
          kept.inc({ ...place, action }, result.outputsKept);
          removed.inc({ ...place, action }, result.outputsRemoved);
          bytes.inc(place, result.bytesWritten);
          linkedBytes.inc(place, result.bytesLinked);
          keptBytes.inc(place, result.bytesKept);
        }
      }
    }
  };
  return { record, expect };
}

export function deliveryMetrics({ counter }: Definer, notifierIds: readonly string[] = []): DeliveryMetrics {
  const deliveries = counter('waybill_event_deliveries_total', 'Events, after the last try.', [
    'notifier',
    'result',
  ]);
  const dropped = counter(
    'waybill_undelivered_events_dropped_total',
    'Undelivered events that had to go because there were too many of their notifier.',
    ['notifier'],
  );
  const expectDeliveries = (ids: readonly string[]): void => {
    for (const notifier of ids) dropped.inc({ notifier }, 0);
    for (const notifier of ids)
      for (const result of ['delivered', 'failed']) deliveries.inc({ notifier, result }, 0);
  };
  expectDeliveries(notifierIds);
  return {
    expectDeliveries,
    undeliveredDropped: (notifier, count) => dropped.inc({ notifier }, count),
    recordDelivery: ({ notifierId, delivered }) =>
      deliveries.inc({ notifier: notifierId, result: delivered ? 'delivered' : 'failed' }),
  };
}
