import type { Config } from '../../core/config/config.ts';
import { adoptable, changesBetween, type ReloadReport } from '../../core/config/reload.ts';
import { referencedSecrets, requireSecrets } from '../../core/config/secret-references.ts';
import { WaybillError, describeFinding, type Finding } from '../../core/lib/errors.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { ReloadMetrics } from '../../api/metrics/process-metrics.ts';
import { logWarnings, type Foundation, type ProgramOptions, type ReadConfig } from './bootstrap.ts';

/** Reads the configuration of a program again while it runs. */
export interface Reloader {
  /**
   * Takes over what the file says now. One at a time: whoever asks while another is under way gets the
   * outcome of the next one, which begins to read after the question. Logs the outcome. Throws
   * `reload_refused` with everything that is wrong, `queue_unavailable` or `shutting_down`; nothing has
   * changed then.
   */
  reload(): Promise<ReloadReport>;
  /** From now on reloads are refused; waits for the one that is under way. */
  close(): Promise<void>;
}

export interface ReloaderOptions {
  foundation: Foundation;
  /** What the program uses of the secrets that the configuration names. */
  needs: 'api' | 'worker';
  /**
   * Makes the program go by the configuration: first all that can fail, and only then all that changes
   * something. Resolves with further warnings.
   */
  take: (next: ReadConfig) => Promise<Finding[]>;
  metrics: ReloadMetrics | null;
  onReload: ProgramOptions['onReload'];
}

export function createReloader(options: ReloaderOptions): Reloader {
  let running: Promise<ReloadReport> | null = null;
  let next: Promise<ReloadReport> | null = null;
  let isClosed = false;
  const reloadOnce = reloading(options);
  const begin = async (): Promise<ReloadReport> => {
    if (isClosed) throw new WaybillError('shutting_down', 'the process is stopping and reloads nothing');
    running = reloadOnce().finally(() => (running = null));
    return running;
  };
  return {
    reload: () => {
      if (next !== null) return next;
      if (running === null) return begin();
      // The one that runs may have read the file before it was changed.
      next = running
        .catch(() => undefined)
        .then(() => {
          next = null;
          return begin();
        });
      return next;
    },
    close: async () => {
      isClosed = true;
      await running?.catch(() => undefined);
    },
  };
}

/** The files that a reload refuses to take over, by what loading them throws. */
const refusing: readonly ErrorCode[] = [
  'config_unreadable',
  'config_invalid',
  'secrets_invalid',
  'unsafe_permissions',
];

function reloading(options: ReloaderOptions): () => Promise<ReloadReport> {
  const { foundation, metrics, onReload } = options;
  const { clock, log } = foundation;
  let inForce: Config = foundation.config;
  const take = async (): Promise<ReloadReport> => {
    const { config: newer, secrets, warnings } = await foundation.readAgain();
    const { config, restartNeeded } = adoptable(foundation.config, newer);
    requireSecrets(secrets, referencedSecrets({ ...config, pipelines: [] }, secretsOf(options)));
    const more = await options.take({ config, secrets, warnings });
    const changes = changesBetween(inForce, config);
    inForce = config;
    return { ...changes, restartNeeded, warnings: [...warnings, ...more] };
  };
  return async () => {
    onReload?.('begun');
    try {
      const report = await take();
      metrics?.configRead({ succeeded: true, at: clock.now() });
      logWarnings(log, report.warnings);
      const { restartNeeded, added, changed, removed } = report;
      log.info({ added, changed, removed }, 'configuration reloaded');
      if (restartNeeded.length > 0)
        log.warn({ settings: restartNeeded }, 'these settings of the file hold only after a restart');
      return report;
    } catch (thrown) {
      metrics?.configRead({ succeeded: false, at: clock.now() });
      const error = refusalOf(thrown);
      const findings = error instanceof WaybillError ? error.findings.map(describeFinding) : [];
      log.error({ err: error, findings }, 'reload refused; the configuration stays as it was');
      throw error;
    } finally {
      onReload?.('ended');
    }
  };
}

/** The same for the start: what is missing is told at once, and not one after the other. */
function secretsOf({ needs }: ReloaderOptions): Parameters<typeof referencedSecrets>[1] {
  return { notifiers: true, queue: true, uploadTokens: needs === 'api' };
}

function refusalOf(thrown: unknown): unknown {
  if (!(thrown instanceof WaybillError) || !refusing.includes(thrown.code)) return thrown;
  const { message, hint, findings } = thrown;
  return new WaybillError('reload_refused', `nothing was changed: ${message}`, {
    ...(hint === undefined ? {} : { hint }),
    findings,
    cause: thrown,
  });
}
