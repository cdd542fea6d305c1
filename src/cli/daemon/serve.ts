import { WaybillError } from '../../core/lib/errors.ts';
import { releasedOnFailure } from '../../core/lib/lifecycle.ts';
import type { ReloadReport } from '../../core/config/reload.ts';
import { createDaemonApp } from './daemon-app.ts';
import { withDirectReads } from '../../weather/api/direct-reads.ts';
import { apiPorts } from './api-ports.ts';
import { runOnce } from './bootstrap.ts';
import { openDaemon, type Daemon, type DaemonOptions } from './open-daemon.ts';

export interface ServeOptions extends DaemonOptions {
  /** Called once, with the base URL, when the daemon answers requests. */
  onListening?: (url: string) => void;
}

export interface Served {
  /** Base URL, with the base path; ends with `/`. */
  url: string;
  /** Reads the configuration again; as `Reloader.reload`. */
  reload(): Promise<ReloadReport>;
  /**
   * Takes no more uploads, publishes accepted ones within `shutdown_timeout`, and stops. Resolves with the
   * ids of interrupted runs. A second call waits for the first.
   */
  close(): Promise<{ unfinished: string[] }>;
}

/**
 * Runs the daemon. Throws `config_invalid`, `secrets_invalid`, or what opening the databases and the queue
 * throws; nothing is left open then. Signals are the caller's business: it calls `close`.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const { workers = true, onListening } = options;
  return releasedOnFailure(async (onFailure) => {
    const daemon = await openDaemon(options, onFailure);
    const { foundation, configured, coordinator, scheduler, server, entrance, weather, shutdown, reloader } =
      daemon;
    const { config, log } = foundation;
    const reload = (): Promise<ReloadReport> => reloader.reload();
    const ports = apiPorts(foundation, {
      ...daemon,
      tracer: daemon.tracing.tracer,
      reload,
      weather: weather?.service ?? null,
      weatherPulse: weather?.pulse ?? null,
      stopping: shutdown.uploads.signal,
      draining: shutdown.draining.signal,
    });
    if (workers) await coordinator.start();
    scheduler.update(config.pipelines);
    entrance.open(withDirectReads(createDaemonApp(ports), ports));
    const url = `${server.origin}${config.server.http.basePath}`;
    log.info({ url, pipelines: [...configured.get().uploadPipelines.keys()] }, 'listening');
    onListening?.(url);
    return { url, reload, close: runOnce(() => stop(daemon)) };
  });
}

async function stop(daemon: Daemon): Promise<{ unfinished: string[] }> {
  const { foundation, coordinator, scheduler, server, weather, notifier, shutdown } = daemon;
  const { config, log } = foundation;
  const { shutdownTimeoutMs } = config.server.http;
  shutdown.draining.abort();
  await daemon.reloader.close();
  await scheduler.close();
  await daemon.search?.close();
  await daemon.tidying?.close();
  const { unfinished } = await coordinator.queue.close(shutdownTimeoutMs);
  shutdown.uploads.abort(
    new WaybillError('shutting_down', 'the daemon stopped before the upload was whole', {
      hint: 'upload again shortly',
    }),
  );
  await server.close();
  await coordinator.close(shutdownTimeoutMs);
  await daemon.sceneMaps.close();
  daemon.endedSessions.close();
  await daemon.partialUploads.close();
  await daemon.content.close();
  await daemon.stagingDisk.close(shutdownTimeoutMs);
  await weather
    ?.close()
    .catch((error: unknown) => log.error({ err: error }, 'closing the weather databases failed'));
  await notifier.close();
  await daemon.tracing.close();
  await daemon.events.close();
  await daemon.store?.close();
  daemon.lag.cancel();
  log.info({ unfinished }, 'stopped');
  return { unfinished };
}
