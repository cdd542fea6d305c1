import { newReadiness, type Readiness } from '../../api/daemon/readiness.ts';
import { createWorkerMetrics } from '../../api/metrics/process-metrics.ts';
import type { ReloadReport } from '../../core/config/config-changes.ts';
import type { Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { closeAll, openOrRelease, type Releaser } from '../../core/lib/lifecycle.ts';
import { parseListen } from '../../core/lib/settings/parse-values.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import { auditChecks } from '../../workers/coordinator/health-checks.ts';
import { requireBullmq } from '../../workers/coordinator/open-coordinator.ts';
import { freeBytes } from '../../workers/staging/staging-check.ts';
import { auditReload } from './audit-calls.ts';
import {
  bootstrap,
  type ProgramContext,
  type ProgramFlags,
  type ProgramOptions,
  runOnce,
  runUntilStopped,
} from './bootstrap.ts';
import { metricsOptions, watchLoopLag } from './daemon-metrics.ts';
import { findLastSuccesses, type SuccessSearch } from './last-successes.ts';
import { openWorkerListener, type WorkerListener } from './listener.ts';
import { closeOnError, closeReporting, openPublishing, openReporting, type Reporting } from './publishing.ts';
import { Reloader } from './reloader.ts';

export async function runWorkerProcess(flags: ProgramFlags & { listen?: string }): Promise<number> {
  const listen = flags.listen === undefined ? undefined : addressOf(flags.listen);
  return runUntilStopped(flags, (options) => startWorker({ ...options, listen }));
}

function addressOf(text: string): { host: string; port: number } {
  const verdict = parseListen(text);
  if (verdict.ok) return verdict.value;
  throw new WaybillError('usage', `--listen ${text}: ${verdict.reason}`, {
    hint: 'give host:port such as 127.0.0.1:9090 or [::1]:9090; port 0 takes any free one',
  });
}

interface WorkerOptions extends ProgramOptions {
  /** The address for health checks and metrics. Default: `server.worker.listen`. */
  listen?: { host: string; port: number };
}

interface RunningWorker {
  /** The URL for health checks and metrics, which ends with `/`. null if they are not served. */
  url: string | null;
  /** Reloads the configuration; see `Reloader.reload`. */
  reload(): Promise<ReloadReport>;
  /**
   * Stops the worker. It takes no more jobs, finishes those that are running, within `shutdown_timeout`, and
   * returns the rest to the queue. Returns the ids of runs that were interrupted.
   */
  close(): Promise<{ unfinished: string[] }>;
}

interface Worker {
  foundation: ProgramContext;
  reporting: Reporting;
  listener: WorkerListener | null;
  coordinator: Coordinator;
  readiness: Readiness;
  shutdown: { isDraining: boolean };
  /** null if metrics are disabled. */
  search: SuccessSearch | null;
  reloader: Reloader;
  lag: Timer;
}

/**
 * Starts a worker without an API. It publishes uploads that other processes have accepted. Throws
 * `config_invalid`, `secrets_invalid`, or the errors of Redis and the staging directories. If it throws,
 * nothing is left open.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  return openOrRelease(async (onFailure) => {
    const worker = await openWorker(options, onFailure);
    const { foundation, coordinator, listener } = worker;
    const { config, log } = foundation;
    await coordinator.start();
    listener?.open(worker);
    const url = listener?.url ?? null;
    if (url !== null) log.info({ url }, 'listening');
    log.info({ max_concurrency: config.server.http.maxConcurrency }, 'working');
    const reload = auditReload(() => worker.reloader.reload(), worker.reporting.audit);
    return { url, reload, close: runOnce(() => stop(worker)) };
  });
}

/** Opens the parts of the worker. Each one is opened after those that it needs. */
async function openWorker(
  { listen, ...options }: WorkerOptions,
  onFailure: (release: Releaser) => void,
): Promise<Worker> {
  const own = closeOnError(onFailure);
  const foundation = await bootstrap(options, (config) => requireBullmq(config, 'a worker'));
  const { config, clock } = foundation;
  const address = listen ?? config.server.worker.listen;
  const isMeasured = address !== null && config.server.metrics.enabled;
  const metrics = isMeasured ? createWorkerMetrics(metricsOptions(config)) : null;
  const reporting = await openReporting(foundation, metrics, own);
  // If the address or the token is invalid, this fails before any job has started.
  const listener = address === null ? null : own(await openWorkerListener(foundation, address, metrics));
  const coordinator = await openPublishing(foundation, reporting, { metrics }, own);
  const shutdown = { isDraining: false };
  const readiness = newReadiness({
    ...foundation,
    checks: [
      ...coordinator.checks,
      ...auditChecks(config.audit, { ...foundation, trail: reporting.audit, admitsActs: false }),
    ],
    isDraining: () => shutdown.isDraining,
    weatherHealth: null,
  });
  metrics?.observe({
    threads: () => coordinator.threads.stats(),
    readiness,
    freeBytes: () => freeBytes(config.server.staging.directory),
  });
  const search =
    metrics === null ? null : own(findLastSuccesses(foundation, coordinator.queue, metrics.runs));
  const lag = watchLoopLag({ ...foundation, record: (seconds) => metrics?.loopLag(seconds) });
  onFailure(() => lag.cancel());
  metrics?.configRead({ succeeded: true, at: clock.now() });
  const reloader = new Reloader({
    foundation,
    metrics,
    coordinator,
    search,
    notifier: reporting.notifier,
    needs: 'worker',
    onReload: options.onReload,
    prepare: (next) => listener?.prepare(next).replace,
  });
  return { foundation, reporting, listener, coordinator, readiness, shutdown, search, reloader, lag };
}

async function stop(worker: Worker): Promise<{ unfinished: string[] }> {
  const { config, log } = worker.foundation;
  worker.shutdown.isDraining = true;
  await Promise.all([worker.reloader.close(), worker.search?.close()]);
  let answer: { unfinished: string[] } = { unfinished: [] };
  await closeAll(
    async () => (answer = await worker.coordinator.close(config.server.http.shutdownTimeoutMs)),
    () => worker.listener?.close(),
    () => closeReporting(worker.reporting),
    () => worker.lag.cancel(),
  );
  log.info(answer, 'stopped');
  return answer;
}
