import type { Current } from '../core/lib/current.ts';
import type { EndedSessions } from '../workers/queue/ended-sessions.ts';
import type { JobQueue } from '../workers/queue/job-queue.ts';
import type { ConsoleAccess, ConsolePorts, ConsoleSettings } from './console/ports.ts';
import type { HealthPorts } from './daemon/health-routes.ts';
import type { ReloadPorts } from './daemon/reload-route.ts';
import type { NotifierAccess, UndeliveredPorts } from './daemon/undelivered-routes.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { MetricsAccess, MetricsPorts } from './metrics/metrics-route.ts';
import type { PipelineAccess, PipelinePorts } from './pipelines/pipelines-route.ts';
import type { ReleasesPorts } from './pipelines/releases-routes.ts';
import type { PublisherAccess, Publishers } from './publishers/publishers.ts';
import type { TokenPorts } from './publishers/token-route.ts';
import type { LivePorts } from './runs/follow-routes.ts';
import type { SceneMapPorts } from './scene-maps/scene-map-routes.ts';
import type { ResumablePorts, UploadAccess, UploadPorts } from './uploads/ports.ts';

/**
 * The part of the configuration that requests are checked against. Replaced on reload, so handlers read it
 * only once per request.
 */
export interface ApiAccess
  extends UploadAccess, PipelineAccess, MetricsAccess, NotifierAccess, PublisherAccess {
  publishers: Publishers;
  login: ConsoleAccess['login'];
  places: ConsoleAccess['places'];
}

/** The dependencies of all routes. Each feature declares its own, and the daemon or a test provides them. */
export interface ApiPorts
  extends
    UploadPorts,
    Pick<SceneMapPorts, 'sceneMaps'>,
    ResumablePorts,
    LivePorts,
    PipelinePorts,
    ReleasesPorts,
    ReloadPorts,
    UndeliveredPorts,
    Pick<ConsolePorts, 'inspect' | 'issuerKeys' | 'runLines'>,
    Pick<TokenPorts, 'exchangeLimit'>,
    MetricsPorts,
    HealthPorts {
  queue: JobQueue;
  endedSessions: Omit<EndedSessions, 'close'>;
  configured: Current<ApiAccess>;
  metrics: Metrics | null;
  /** null if there are no weather pages to link to. */
  weather: object | null;
  /** null if the console is disabled. */
  console?: ConsoleSettings | null;
}
