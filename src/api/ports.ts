import type { Current } from '../core/lib/current.ts';
import type { ConsolePorts, ConsoleSettings } from './console/ports.ts';
import type { HealthPorts } from './daemon/health-routes.ts';
import type { ReloadPorts } from './daemon/reload-route.ts';
import type { NotifierAccess, UndeliveredPorts } from './daemon/undelivered-routes.ts';
import type { HttpPorts } from './http/app.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { MetricsAccess, MetricsPorts } from './metrics/metrics-route.ts';
import type { PipelineAccess, PipelinePorts } from './pipelines/pipelines-route.ts';
import type { ReleasesPorts } from './pipelines/releases-routes.ts';
import type { LivePorts } from './runs/follow-routes.ts';
import type { SceneMapPorts } from './scene-maps/scene-map-routes.ts';
import type { MissingPorts } from './uploads/missing-route.ts';
import type { ResumablePorts, UploadAccess, UploadPorts } from './uploads/ports.ts';

/**
 * Who may call, and about what: all that requests are judged by and a reload replaces. A handler asks for it
 * once, so that one request is judged by one configuration.
 */
export interface ApiAccess extends UploadAccess, PipelineAccess, MetricsAccess, NotifierAccess {}

/** Everything that the routes work with: what each feature asks for, put together by the daemon or a test. */
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
    Pick<ConsolePorts, 'look' | 'endedSessions'>,
    MetricsPorts,
    HealthPorts {
  queue: LivePorts['queue'];
  configured: Current<ApiAccess>;
  metrics: Metrics | null;
  /** Null: the navigation has no weather pages. */
  weather: object | null;
  /** Null: there is no console. */
  console?: ConsoleSettings | null;
}
