import type { ProcessMetrics } from '../../api/metrics/process-metrics.ts';
import type { Config } from '../../core/config/config.ts';
import { applyReloadable, changesBetween, type ReloadReport } from '../../core/config/config-changes.ts';
import { referencedSecrets, requireSecrets } from '../../core/config/secret-references.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { describeFinding, WaybillError } from '../../core/lib/errors.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import { logWarnings, type ProgramContext, type ProgramOptions, type ReadConfig } from './bootstrap.ts';
import { expectMetrics } from './daemon-metrics.ts';
import type { SuccessSearch } from './last-successes.ts';
import type { ProgramNotifier } from './publishing.ts';

interface ReloaderOptions {
  foundation: ProgramContext;
  metrics: ProcessMetrics | null;
  notifier: ProgramNotifier;
  coordinator: Coordinator;
  search: SuccessSearch | null;
  /** Which program this is. A worker does not need all of the secrets. */
  needs: 'api' | 'worker';
  /**
   * Checks the parts of the configuration that only this program uses, without changing anything. Returns a
   * function that puts them into effect, which must not fail.
   */
  prepare: (next: ReadConfig) => (() => void) | undefined;
  onReload: ProgramOptions['onReload'];
}

/** Errors from reading the configuration that are reported as `reload_refused`. */
const refusedCodes: readonly ErrorCode[] = [
  'config_unreadable',
  'config_invalid',
  'secrets_invalid',
  'unsafe_permissions',
  'signing_key_invalid',
];

export class Reloader {
  readonly #options: ReloaderOptions;
  #config: Config;
  #running: Promise<ReloadReport> | null = null;
  #next: Promise<ReloadReport> | null = null;
  #isClosed = false;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    this.#config = options.foundation.config;
  }

  /**
   * Reads the configuration again and puts it into effect. There is only one reload at a time: a call during
   * a reload waits for the next one, so that it never misses a change to the file. Logs the result. Throws
   * `reload_refused` with everything that is wrong, `queue_unavailable` or `shutting_down`; in that case,
   * nothing has changed.
   */
  reload(): Promise<ReloadReport> {
    if (this.#next !== null) return this.#next;
    if (this.#running === null) return this.#begin();
    // Start another one, because the running reload may have read the file before it was changed.
    this.#next = this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = null;
        return this.#begin();
      });
    return this.#next;
  }

  /** Rejects further reloads, and waits for a running one to finish. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running?.catch(() => undefined);
  }

  async #begin(): Promise<ReloadReport> {
    if (this.#isClosed)
      throw new WaybillError('shutting_down', 'the process is stopping and reloads nothing');
    this.#running = this.#reloadOnce().finally(() => (this.#running = null));
    return this.#running;
  }

  async #reloadOnce(): Promise<ReloadReport> {
    const { foundation, metrics, onReload } = this.#options;
    const { clock, log } = foundation;
    onReload?.('begun');
    try {
      const report = await this.#activate();
      metrics?.configRead({ succeeded: true, at: clock.now() });
      logWarnings(log, report.warnings);
      const { restartNeeded, added, changed, removed } = report;
      log.info({ added, changed, removed }, 'configuration reloaded');
      if (restartNeeded.length > 0)
        log.warn({ settings: restartNeeded }, 'these settings need a restart to take effect');
      return report;
    } catch (thrown) {
      metrics?.configRead({ succeeded: false, at: clock.now() });
      const error = refusalOf(thrown);
      const findings = error instanceof WaybillError ? error.findings.map(describeFinding) : [];
      log.error({ err: error, findings }, 'reload failed; the current configuration stays active');
      throw error;
    } finally {
      onReload?.('ended');
    }
  }

  /** Makes all checks first. Either everything is changed or nothing. */
  async #activate(): Promise<ReloadReport> {
    const { foundation, metrics, notifier, coordinator, search, needs, prepare } = this.#options;
    const { config: newer, secrets, warnings } = await foundation.readAgain();
    const { config, restartNeeded } = applyReloadable(foundation.config, newer);
    const uses = { notifiers: true, queue: true, uploadTokens: needs === 'api' };
    requireSecrets(secrets, referencedSecrets({ ...config, pipelines: [] }, uses));
    const next: ReadConfig = { config, secrets, warnings };
    const replaceOwn = prepare(next);
    const notifiers = await notifier.prepare(next);
    await coordinator.adopt(config);

    replaceOwn?.();
    notifiers.replace();
    expectMetrics(metrics, config);
    search?.extend(next);
    foundation.logging.set(config.log);
    const changes = changesBetween(this.#config, config);
    this.#config = config;
    return { ...changes, restartNeeded, warnings: [...warnings, ...notifiers.warnings] };
  }
}

function refusalOf(thrown: unknown): unknown {
  if (!(thrown instanceof WaybillError) || !refusedCodes.includes(thrown.code)) return thrown;
  const { message, hint, findings } = thrown;
  return new WaybillError('reload_refused', `nothing was changed: ${message}`, {
    hint,
    findings,
    cause: thrown,
  });
}
