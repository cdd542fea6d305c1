import type { ServerConfig } from '../../core/config/config.ts';
import type { ReloadReport } from '../../core/config/config-changes.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { closeAll, openOrRelease } from '../../core/lib/lifecycle.ts';
import type { Log } from '../../core/lib/log.ts';
import { withDirectReads } from '../../weather/api/direct-reads.ts';
import { openInBrowser } from '../process/open-browser.ts';
import { auditReload } from './audit-calls.ts';
import { type ProgramFlags, runOnce, runUntilStopped } from './bootstrap.ts';
import { createDaemonApp } from './daemon-app.ts';
import { daemonServices } from './daemon-services.ts';
import { type Daemon, type DaemonOptions, openDaemon } from './open-daemon.ts';
import { closeReporting } from './publishing.ts';

export async function runServerProcess(
  flags: ProgramFlags & { workers: boolean; open: boolean },
): Promise<number> {
  const { workers, open } = flags;
  return runUntilStopped(flags, (options) => {
    const { log } = options;
    return serve({
      ...options,
      workers,
      onConsole: open ? async (url) => openConsole(url, log) : undefined,
    });
  });
}

async function openConsole(url: string, log: Log): Promise<void> {
  const failure = await openInBrowser(url);
  if (failure !== null) log.warn({ url }, `no browser was started: ${failure}`);
}

/**
 * Returns the URLs of the daemon's pages, to be opened in a browser on this machine. If the daemon listens on
 * all addresses, they contain `localhost`.
 */
function pagesOf(url: string, { console }: ServerConfig): { console?: string; docs: string } {
  const base = url.replace(/^(http:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, '$1localhost');
  return { ...(console.enabled ? { console: `${base}console` } : {}), docs: `${base}docs` };
}

interface ServeOptions extends DaemonOptions {
  /** Called once, when the daemon is ready for requests. */
  onListening?: (url: string) => void;
  /** Called at the same time, with the URL of the console or, if it is disabled, of the API reference. */
  onConsole?: (url: string) => Promise<void>;
}

export interface RunningServer {
  /** The URL, including the base path. Ends with `/`. */
  url: string;
  /** Reloads the configuration; see `Reloader.reload`. */
  reload(): Promise<ReloadReport>;
  /**
   * Stops the daemon. It rejects new uploads, but publishes those that it has already accepted, within
   * `shutdown_timeout`. Returns the ids of runs that were interrupted. Can be called more than once.
   */
  close(): Promise<{ unfinished: string[] }>;
}

/**
 * Starts the daemon, which runs until it is closed. Throws `config_invalid`, `secrets_invalid`, and the
 * errors of the databases and the queue. If it throws, nothing is left open.
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { workers = true, onListening, onConsole } = options;
  return openOrRelease(async (onFailure) => {
    const daemon = await openDaemon(options, onFailure);
    const { foundation, configured, coordinator, server } = daemon;
    const { config, log } = foundation;
    const reload = (): Promise<ReloadReport> => daemon.reloader.reload();
    const ports = daemonServices(daemon, reload);
    if (workers) await coordinator.start();
    daemon.scheduler.update(config.pipelines);
    daemon.requestGate.open(withDirectReads(createDaemonApp(ports), ports));
    const url = `${server.origin}${config.server.http.basePath}`;
    const pages = pagesOf(url, config.server);
    log.info({ url, ...pages, pipelines: [...configured.get().uploadPipelines.keys()] }, 'listening');
    onListening?.(url);
    void onConsole?.(pages.console ?? pages.docs);
    const signalled = auditReload(reload, daemon.reporting.audit);
    return { url, reload: signalled, close: runOnce(() => stop(daemon)) };
  });
}

/** Stops accepting work, finishes what has been accepted, and then closes everything. */
async function stop(daemon: Daemon): Promise<{ unfinished: string[] }> {
  const { foundation, coordinator, background, uploads, reporting, shutdown } = daemon;
  const { config, log } = foundation;
  const { shutdownTimeoutMs } = config.server.http;
  shutdown.draining.abort();
  await daemon.reloader.close();
  await daemon.scheduler.close();
  await background.search?.close();
  await background.tidying?.close();
  let unfinished: string[] = [];
  const incomplete = new WaybillError('shutting_down', 'the daemon stopped before the upload was complete', {
    hint: 'upload again shortly',
  });
  await closeAll(
    async () => ({ unfinished } = await coordinator.queue.close(shutdownTimeoutMs)),
    () => shutdown.uploads.abort(incomplete),
    () => daemon.server.close(),
    () => coordinator.close(shutdownTimeoutMs),
    () => daemon.sceneMaps.close(),
    () => daemon.revokedSessions.close(),
    () => uploads.partialUploads.close(),
    () => uploads.content.close(),
    () => uploads.stagingDisk.close(shutdownTimeoutMs),
    () =>
      daemon.weather
        ?.close()
        .catch((error: unknown) => log.error({ err: error }, 'closing the weather databases failed')),
    () => closeReporting(reporting),
    () => background.lag.cancel(),
  );
  log.info({ unfinished }, 'stopped');
  return { unfinished };
}
