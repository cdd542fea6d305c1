import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Owner } from '../../core/storage/identity.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import { type Definer, definer } from './definer.ts';
import { type ObservedReadiness, observeReadiness, observeThreads } from './gauges.ts';
import { type DeliveryMetrics, deliveryMetrics, RunMetrics } from './run-metrics.ts';

/**
 * Metrics of every process that publishes, whether an API or a separate worker. A process only counts its own
 * work, so counters can be summed over all processes.
 */
export interface ProcessMetrics extends DeliveryMetrics, ReloadMetrics, MetricsText {
  /** Records how long the event loop was delayed. */
  loopLag(seconds: number): void;
  runs: RunMetrics;
}

export interface WorkerMetrics extends ProcessMetrics {
  /** Adds gauges that read their values from the worker on every scrape. Call this once. */
  observe(worker: ObservedReadiness & { threads: () => ThreadStats }): void;
}

/** Renders all metrics in the Prometheus text format. */
export interface MetricsText {
  contentType: string;
  text(): Promise<string>;
}

export interface MetricsOptions {
  version: string;
  nodeVersion: string;
  /**
   * Pipelines to create series for right away, at zero, so that the first run already shows up as an
   * increase.
   */
  pipelineIds: readonly string[];
  /** Destinations to create series for right away, at zero. Default: none. */
  places?: readonly Owner[];
  /** Notifiers to create series for right away, at zero. Default: none. */
  notifierIds?: readonly string[];
}

const lagBuckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10];

/**
 * Creates the metrics of a worker process in a separate registry. They are documented in `docs/metrics.md`.
 */
export function createWorkerMetrics(options: MetricsOptions): WorkerMetrics {
  const { registry, metrics } = processMetrics(options);
  const observe: WorkerMetrics['observe'] = ({ threads, ...worker }) => {
    observeThreads(registry, threads);
    observeReadiness(registry, worker);
  };
  return { ...metrics, observe };
}

/** Creates a registry with the metrics that all processes have, and a definer to add others. */
export function processMetrics(options: MetricsOptions): {
  registry: Registry;
  define: Definer;
  metrics: ProcessMetrics;
} {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const define = definer(registry);
  reportBuild(define, options);
  const metrics = {
    ...loopMetrics(define),
    runs: new RunMetrics(define),
    ...deliveryMetrics(define, options.notifierIds),
    ...reloadMetrics(define),
    contentType: registry.contentType,
    text: () => registry.metrics(),
  };
  metrics.runs.expect(options.pipelineIds, options.places ?? []);
  return { registry, define, metrics };
}

function reportBuild({ gauge }: Definer, { version, nodeVersion }: MetricsOptions): void {
  const info = gauge('waybill_build_info', 'Always 1. The labels are the versions.', [
    'version',
    'node_version',
  ]);
  info.set({ version, node_version: nodeVersion }, 1);
}

function loopMetrics({ histogram }: Definer): Pick<ProcessMetrics, 'loopLag'> {
  const lag = histogram(
    'waybill_event_loop_lag_seconds',
    'Lag of the event loop, measured ten times a second.',
    [],
    lagBuckets,
  );
  return { loopLag: (seconds) => lag.observe(seconds) };
}

export interface ReloadMetrics {
  /** Records that the configuration was read, either at startup or by a reload. */
  configRead(done: { succeeded: boolean; at: Date }): void;
}

/**
 * Named like Prometheus's metrics about its own configuration, which allows existing alert rules to be
 * reused.
 */
function reloadMetrics({ gauge }: Definer): ReloadMetrics {
  const successful = gauge(
    'waybill_config_last_reload_successful',
    '1 if the last load of the configuration (start or reload) succeeded, else 0.',
    [],
  );
  const at = gauge(
    'waybill_config_last_reload_success_timestamp_seconds',
    'Time at which the active configuration was loaded.',
    [],
  );
  return {
    configRead: (done) => {
      successful.set(done.succeeded ? 1 : 0);
      if (done.succeeded) at.set(done.at.getTime() / 1000);
    },
  };
}
