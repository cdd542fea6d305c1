import type { Current } from '../core/lib/current.ts';
import type { ConsoleAccess, ConsolePorts, ConsoleSettings } from './console/ports.ts';
import type { HealthPorts } from './daemon/health-routes.ts';
import type { ReloadPorts } from './daemon/reload-route.ts';
import type { NotifierAccess, UndeliveredPorts } from './daemon/undelivered-routes.ts';
import type { HttpPorts } from './http/app.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { MetricsAccess, MetricsPorts } from './metrics/metrics-route.ts';
import type { PipelineAccess, PipelinePorts } from './pipelines/pipelines-route.ts';
import type { ReleasesPorts } from './pipelines/releases-routes.ts';
import type { PublisherAccess, Publishers } from './publishers/publishers.ts';
import type { TokenPorts } from './publishers/token-route.ts';
import type { LivePorts } from './runs/follow-routes.ts';
import type { SceneMapPorts } from './scene-maps/scene-map-routes.ts';
import type { MissingPorts } from './uploads/missing-route.ts';
import type { ResumablePorts, UploadAccess, UploadPorts } from './uploads/ports.ts';

/**
 * The configuration that requests are checked against. A reload replaces it. Handlers read it once, so that
 * each request sees a single configuration.
 */
export interface ApiAccess
  extends UploadAccess, PipelineAccess, MetricsAccess, NotifierAccess, PublisherAccess {
  publishers: Publishers;
  login: ConsoleAccess['login'];
}

/** All dependencies of the routes. Each feature declares its own; the daemon or a test provides them. */
export interface ApiPorts
  extends
    HttpPorts,
    UploadPorts,
    MissingPorts,
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
  queue: LivePorts['queue'];
  endedSessions: ConsolePorts['endedSessions'] & TokenPorts['endedSessions'];
  configured: Current<ApiAccess>;
  metrics: Metrics | null;
  /** If null, the navigation has no weather pages. */
  weather: object | null;
  /** If null, there is no console. */
  console?: ConsoleSettings | null;
}
