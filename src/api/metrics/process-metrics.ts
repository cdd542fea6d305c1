import { collectDefaultMetrics, Registry } from 'prom-client';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import { type Definer, definer } from './definer.ts';
import { type ObservedReadiness, observeReadiness, observeThreads } from './gauges.ts';
import { type DeliveryMetrics, deliveryMetrics, type Place, RunMetrics } from './run-metrics.ts';

/**
 * The metrics of every process that publishes: an API, or a worker without one. Each process counts only its
 * own work, so the counters of all processes can be added up.
 */
export interface ProcessMetrics extends DeliveryMetrics, ReloadMetrics, MetricsText {
  /** Records the event loop's delay. */
  loopLag(seconds: number): void;
  runs: RunMetrics;
}

export interface WorkerMetrics extends ProcessMetrics {
  /** Adds gauges that query the worker on each scrape. Call this once. */
  observe(worker: ObservedReadiness & { threads: () => ThreadStats }): void;
}

/** All metrics in the Prometheus text format, with its media type. */
export interface MetricsText {
  contentType: string;
  text(): Promise<string>;
}

export interface MetricsOptions {
  version: string;
  nodeVersion: string;
  /** Pipelines whose run series start at zero, so that the first run already counts as an increase. */
  pipelineIds: readonly string[];
  /** Destinations whose series start at zero. Default: none. */
  places?: readonly Place[];
  /** Notifiers whose delivery series start at zero. Default: none. */
  notifierIds?: readonly string[];
}

const lagBuckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10];

/** Creates the metrics of a worker without an API in their own registry. `docs/metrics.md` lists them. */
export function createWorkerMetrics(options: MetricsOptions): WorkerMetrics {
  const { registry, metrics } = processMetrics(options);
  const observe: WorkerMetrics['observe'] = ({ threads, ...worker }) => {
    observeThreads(registry, threads);
    observeReadiness(registry, worker);
  };
  return { ...metrics, observe };
}

/** Creates a registry with the process metrics, and a definer for more. */
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
    'How late the event loop was, measured ten times a second.',
    [],
    lagBuckets,
  );
  return { loopLag: (seconds) => lag.observe(seconds) };
}

export interface ReloadMetrics {
  /** Records that the configuration was read at startup or by a reload. */
  configRead(done: { succeeded: boolean; at: Date }): void;
}

/** Named like Prometheus's own metrics, so that the same alert rules apply. */
function reloadMetrics({ gauge }: Definer): ReloadMetrics {
  const successful = gauge(
    'waybill_config_last_reload_successful',
    '1 if the configuration was taken over when it was last read, at the start or by a reload, else 0.',
    [],
  );
  const at = gauge(
    'waybill_config_last_reload_success_timestamp_seconds',
    'When the configuration that is in force was read.',
    [],
  );
  return {
    configRead: (done) => {
      successful.set(done.succeeded ? 1 : 0);
      if (done.succeeded) at.set(done.at.getTime() / 1000);
    },
  };
}
