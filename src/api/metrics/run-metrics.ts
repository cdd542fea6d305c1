import type { Counter, Gauge, Histogram } from 'prom-client';
import { systemClock } from '../../core/lib/clock.ts';
import { isFuture } from '../../core/lib/clock-skew.ts';
import { createdInFuture } from '../../core/publish/results/action-result.ts';
import type { DestinationResult, RunResult } from '../../core/publish/results/result.ts';
import type { Owner } from '../../core/storage/identity.ts';
import type { JobResult } from '../../workers/queue/job.ts';
import type { RunObserver } from '../../workers/queue/run-observer.ts';
import type { Definer } from './definer.ts';

const runBuckets = [0.05, 0.2, 1, 5, 20, 60, 300, 1200, 3600];
const waitBuckets = [0.01, 0.1, 1, 5, 20, 60, 300, 1200, 3600];

export interface DeliveryMetrics {
  /** Records whether an event was delivered to a notifier, after all retries. */
  recordDelivery(delivery: { notifierId: string; delivered: boolean }): void;
  /** Creates series for these notifiers, at zero. */
  expectDeliveries(notifierIds: readonly string[]): void;
  /** Records that a notifier's oldest undelivered events were dropped, because there were too many. */
  undeliveredDropped(notifierId: string, count: number): void;
}

/** Counts runs by pipeline, and publications by destination. */
export class RunMetrics implements RunObserver {
  readonly #runs: Counter;
  readonly #runSeconds: Histogram;
  readonly #waitSeconds: Histogram;
  readonly #retries: Counter;
  readonly #rejected: Counter;
  readonly #publications: PublicationMetrics;
  readonly #lastSuccesses: LastSuccesses;

  constructor(define: Definer) {
    const { counter, histogram } = define;
    const byPipeline = ['pipeline'];
    this.#runs = counter(
      'waybill_runs_total',
      'Finished runs, including runs that were cancelled or superseded while they waited.',
      ['pipeline', 'status'],
    );
    this.#runSeconds = histogram('waybill_run_duration_seconds', 'Duration of runs.', byPipeline, runBuckets);
    this.#waitSeconds = histogram(
      'waybill_run_queue_seconds',
      'Time that runs waited before they started.',
      byPipeline,
      waitBuckets,
    );
    this.#retries = counter(
      'waybill_run_retries_total',
      'Tries that failed for a temporary cause and are followed by another try.',
      ['pipeline', 'code'],
    );
    this.#rejected = counter(
      'waybill_jobs_rejected_total',
      'Rejected jobs in Redis: not written by waybill, unreadable or not authentic.',
      byPipeline,
    );
    this.#publications = new PublicationMetrics(define);
    this.#lastSuccesses = new LastSuccesses(define);
  }

  /** Creates series for these pipelines and destinations, at zero. */
  expect(pipelineIds: readonly string[], places: readonly Owner[]): void {
    for (const pipeline of pipelineIds) {
      for (const status of ['succeeded', 'failed', 'cancelled', 'superseded'])
        this.#runs.inc({ pipeline, status }, 0);
      this.#retries.inc({ pipeline, code: 'storage_transient' }, 0);
      this.#rejected.inc({ pipeline }, 0);
    }
    this.#publications.expect(places);
  }

  started({ pipelineId, waitedSeconds }: Parameters<RunObserver['started']>[0]): void {
    this.#waitSeconds.observe({ pipeline: pipelineId }, waitedSeconds);
  }

  retried({ record, result }: Parameters<RunObserver['retried']>[0]): void {
    this.#retries.inc({ pipeline: record.pipeline_id, code: record.last_error?.code ?? 'internal_error' });
    this.#published(result);
  }

  finished(run: Parameters<RunObserver['finished']>[0]): void {
    const status = run.succeeded ? 'succeeded' : run.cancelled ? 'cancelled' : 'failed';
    this.#runs.inc({ pipeline: run.pipelineId, status });
    this.#runSeconds.observe({ pipeline: run.pipelineId }, run.seconds);
    this.#published(run.result);
  }

  superseded({ pipelineId }: Parameters<RunObserver['superseded']>[0]): void {
    this.#runs.inc({ pipeline: pipelineId, status: 'superseded' });
  }

  rejected({ pipelineId }: Parameters<RunObserver['rejected']>[0]): void {
    this.#rejected.inc({ pipeline: pipelineId });
  }

  /** Records a run that was cancelled before it started. */
  cancelled(pipelineId: string): void {
    this.#runs.inc({ pipeline: pipelineId, status: 'cancelled' });
  }

  /** Records when a publication succeeded. Ignored if a later one has already been recorded. */
  succeededAt(place: Owner, at: Date): void {
    this.#lastSuccesses.record(place, at);
  }

  #published(result: JobResult | null): void {
    if (result === null) return;
    this.#publications.record(result.run);
    for (const place of succeededPlaces(result.run)) this.#lastSuccesses.record(place, new Date());
  }
}

/** Tracks the last successful publication to each destination. */
class LastSuccesses {
  readonly #gauge: Gauge;
  /** Unix time in seconds, by destination. */
  readonly #known = new Map<string, number>();

  constructor({ gauge }: Definer) {
    this.#gauge = gauge(
      'waybill_last_success_timestamp_seconds',
      'Time of the last run that published to the destination or found it up to date.',
      ['pipeline', 'destination'],
    );
  }

  record({ pipelineId, destinationId }: Owner, at: Date): void {
    const key = JSON.stringify([pipelineId, destinationId]);
    const seconds = at.getTime() / 1000;
    const before = this.#known.get(key) ?? -Infinity;
    // Replace a time in the future. It was recorded while the clock was ahead, and keeping it would hide
    // later failures.
    if (seconds <= before && !isFuture(before * 1000, systemClock)) return;
    this.#known.set(key, seconds);
    this.#gauge.set({ pipeline: pipelineId, destination: destinationId }, seconds);
  }
}

/** Returns the destinations where everything in the run succeeded. */
function succeededPlaces({ pipelines }: RunResult): Owner[] {
  return pipelines.flatMap(({ pipelineId, destinations }) =>
    destinations.filter(hasSucceeded).map(({ destinationId }) => ({ pipelineId, destinationId })),
  );
}

function hasSucceeded({ status, error, actions }: DestinationResult): boolean {
  return status === 'ok' && error === null && actions.every((action) => action.error === null);
}

class PublicationMetrics {
  readonly #publications: Counter;
  readonly #written: Counter;
  readonly #linked: Counter;
  readonly #kept: Counter;
  readonly #removed: Counter;
  readonly #bytes: Counter;
  readonly #linkedBytes: Counter;
  readonly #keptBytes: Counter;
  readonly #future: Counter;

  constructor({ counter }: Definer) {
    const byAction = (name: string, help: string): Counter =>
      counter(name, help, ['pipeline', 'destination', 'action']);
    const byPlace = (name: string, help: string): Counter => counter(name, help, ['pipeline', 'destination']);
    this.#publications = byAction('waybill_publications_total', 'Bundles at destinations, by action.');
    this.#written = byAction('waybill_outputs_written_total', 'Outputs that were written.');
    this.#linked = byAction(
      'waybill_outputs_linked_total',
      'Outputs that a release reused from the previous release.',
    );
    this.#kept = byAction('waybill_outputs_kept_total', 'Published outputs that did not change.');
    this.#removed = byAction('waybill_outputs_removed_total', 'Outputs that were removed.');
    this.#bytes = byPlace('waybill_published_bytes_total', 'Bytes of outputs that were written.');
    this.#linkedBytes = byPlace(
      'waybill_linked_bytes_total',
      'Bytes of outputs that a release reused from the previous release.',
    );
    this.#keptBytes = byPlace('waybill_kept_bytes_total', 'Bytes of published outputs that did not change.');
    this.#future = byPlace(
      'waybill_future_bundles_total',
      'Bundles whose `created` was in the future when they were published: the clock of their producer is ahead.',
    );
  }

  /** Creates series for these destinations, at zero. */
  expect(places: readonly Owner[]): void {
    for (const { pipelineId: pipeline, destinationId: destination } of places) {
      const place = { pipeline, destination };
      for (const counter of [this.#bytes, this.#linkedBytes, this.#keptBytes, this.#future])
        counter.inc(place, 0);
      this.#publications.inc({ ...place, action: 'error' }, 0);
    }
  }

  record({ pipelines }: RunResult): void {
    for (const { pipelineId: pipeline, destinations } of pipelines)
      for (const { destinationId: destination, actions, warnings } of destinations) {
        const place = { pipeline, destination };
        this.#future.inc(place, warnings.filter(({ code }) => code === createdInFuture).length);
        for (const result of actions) this.#add(place, result);
      }
  }

  #add(place: { pipeline: string; destination: string }, result: DestinationResult['actions'][number]): void {
    const labels = { ...place, action: result.action };
    this.#publications.inc(labels);
    this.#written.inc(labels, result.outputsWritten);
    this.#linked.inc(labels, result.outputsLinked);
    this.#kept.inc(labels, result.outputsKept);
    this.#removed.inc(labels, result.outputsRemoved);
    this.#bytes.inc(place, result.bytesWritten);
    this.#linkedBytes.inc(place, result.bytesLinked);
    this.#keptBytes.inc(place, result.bytesKept);
  }
}

export function deliveryMetrics({ counter }: Definer, notifierIds: readonly string[] = []): DeliveryMetrics {
  const deliveries = counter('waybill_event_deliveries_total', 'Events, by the result of their last try.', [
    'notifier',
    'result',
  ]);
  const dropped = counter(
    'waybill_undelivered_events_dropped_total',
    'Undelivered events that were dropped because their notifier had too many.',
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
