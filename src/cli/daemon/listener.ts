import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Readiness } from '../../api/daemon/readiness.ts';
import { listen } from '../../api/http/listen.ts';
import type { MetricsText } from '../../api/metrics/process-metrics.ts';
import { createWorkerApp, workerHttp } from '../../api/worker-app.ts';
import { replaceable } from '../../core/lib/current.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import { metricsToken } from './access.ts';
import type { ProgramContext, ReadConfig } from './bootstrap.ts';

/** Makes requests wait until the program is ready for them. */
export interface RequestGate {
  listener: RequestListener;
  /** Lets `listener` handle the waiting requests, and all further ones. */
  open(listener: RequestListener): void;
}

/**
 * Makes requests wait until `open` is called. If a request is not valid HTTP, it is rejected immediately, so
 * the application must already be set up to handle that. A request is dropped if that happens, or if its
 * client disconnects, while the request is waiting.
 */
export function newRequestGate(): RequestGate {
  let opened: RequestListener | null = null;
  const pendingRequests: [IncomingMessage, ServerResponse][] = [];
  return {
    listener: (req, res) => {
      if (opened === null) pendingRequests.push([req, res]);
      else opened(req, res);
    },
    open: (listener) => {
      opened = listener;
      for (const [req, res] of pendingRequests.splice(0))
        if (!res.headersSent && !res.closed) listener(req, res);
    },
  };
}

/** The HTTP server of a separate worker, for health checks and metrics. */
export interface WorkerListener {
  /** The base URL, with the actual port. Ends with `/`. */
  url: string;
  /** Begins to handle requests, including those that are already waiting. */
  open(worker: { coordinator: Coordinator; readiness: Readiness }): void;
  /**
   * Resolves the token for `/metrics` again. It is used once `replace` is called. Throws `secrets_invalid`.
   */
  prepare(next: ReadConfig): { replace: () => void };
  close(): Promise<void>;
}

/**
 * Starts an HTTP server for health checks and metrics. Throws `config_invalid` if it cannot bind to the
 * address, and `secrets_invalid` if the token for `/metrics` is missing.
 */
export async function openWorkerListener(
  { config, secrets, clock, log, logging }: ProgramContext,
  address: { host: string; port: number },
  metrics: MetricsText | null,
): Promise<WorkerListener> {
  const configured = replaceable({ metricsToken: metricsToken(config, secrets) });
  const http = workerHttp(config, address);
  const requestGate = newRequestGate();
  const options = { ...http, setting: 'server.worker.listen' };
  const server = await listen(requestGate.listener, options, { clock, log, logging, metrics: null });
  return {
    url: `${server.origin}/`,
    open: ({ coordinator, readiness }) => {
      const { queue } = coordinator;
      const threads = (): ThreadStats => coordinator.threads.stats();
      const health = { readiness, threads, weather: null };
      requestGate.open(createWorkerApp({ queue, health, http, clock, log, logging, metrics, configured }));
    },
    prepare: (next) => {
      const access = { metricsToken: metricsToken(next.config, next.secrets) };
      return { replace: () => configured.replace(access) };
    },
    close: () => server.close(),
  };
}
