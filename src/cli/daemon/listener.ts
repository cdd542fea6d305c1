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

/** Holds requests until the program is ready for them. */
export interface RequestGate {
  listener: RequestListener;
  /** Passes the held requests and all later ones to `listener`. */
  open(listener: RequestListener): void;
}

/**
 * Holds requests until `open` is called, and passes later ones on immediately. A request that is not valid
 * HTTP is refused in the same turn of the event loop, so the application must already know it. A held request
 * that was refused is dropped.
 */
export function newRequestGate(): RequestGate {
  let opened: RequestListener | null = null;
  const held: [IncomingMessage, ServerResponse][] = [];
  return {
    listener: (req, res) => {
      if (opened === null) held.push([req, res]);
      else opened(req, res);
    },
    open: (listener) => {
      opened = listener;
      for (const [req, res] of held.splice(0)) if (!res.headersSent) listener(req, res);
    },
  };
}

/** A worker's listener for probes and Prometheus. */
export interface WorkerListener {
  /** The base URL with the port that was actually bound; ends with `/`. */
  url: string;
  /** Answers the held requests and all later ones. */
  open(worker: { coordinator: Coordinator; readiness: Readiness }): void;
  /** Reads the `/metrics` token again, for requests after `replace` is called. Throws `secrets_invalid`. */
  prepare(next: ReadConfig): { replace: () => void };
  close(): Promise<void>;
}

/**
 * Listens for probes and Prometheus. Throws `config_invalid` if the address cannot be bound, and
 * `secrets_invalid` if the `/metrics` token is missing.
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
      const ports = { queue, threads, readiness, weatherHealth: null };
      requestGate.open(createWorkerApp({ ...ports, http, clock, log, logging, metrics, configured }));
    },
    prepare: (next) => {
      const access = { metricsToken: metricsToken(next.config, next.secrets) };
      return { replace: () => configured.replace(access) };
    },
    close: () => server.close(),
  };
}
