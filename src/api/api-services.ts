import type { Current } from '../core/lib/current.ts';
import type { JobQueue } from '../workers/queue/job-queue.ts';
import type { ConsoleAccess, ConsolePorts, ConsoleSettings } from './console/ports.ts';
import type { HealthPorts } from './daemon/health-routes.ts';
import type { NotifierAccess } from './daemon/undelivered-routes.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { MetricsAccess, MetricsPorts } from './metrics/metrics-route.ts';
import type { PipelineAccess } from './pipelines/pipelines-route.ts';
import type { PublisherAccess, Publishers } from './publishers/publishers.ts';
import type { SceneMapPorts } from './scene-maps/scene-map-routes.ts';
import type { UploadAccess } from './uploads/upload-service.ts';

/**
 * The part of the configuration that requests are checked against. Replaced on reload, so handlers read it
 * only once per request.
 */
export interface ApiAccess
  extends UploadAccess, PipelineAccess, MetricsAccess, NotifierAccess, PublisherAccess {
  publishers: Publishers;
  login: ConsoleAccess['login'];
  places: ConsoleAccess['places'];
  notifierPlaces: ConsoleAccess['notifierPlaces'];
}

/**
 * Everything that routes depend on. Each folder of routes declares the services that it uses, and the daemon
 * or a test provides them.
 */
export interface ApiServices
  extends ConsolePorts, Pick<SceneMapPorts, 'sceneMaps'>, MetricsPorts, HealthPorts {
  queue: JobQueue;
  configured: Current<ApiAccess>;
  metrics: Metrics | null;
  /** null if there are no weather pages to link to. */
  weather: object | null;
  /** null if the console is disabled. */
  console?: ConsoleSettings | null;
}
