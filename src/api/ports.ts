import type { RequestHandler } from 'express';
import type { HealthPorts } from './health/health-route.ts';
import type { HttpPorts } from './http/app.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { MetricsPorts } from './metrics/metrics-route.ts';
import type { LivePorts } from './live/live-routes.ts';
import type { PipelinePorts } from './runs/pipelines-route.ts';
import type { UploadPorts } from './upload/ports.ts';
import type { WeatherPorts } from './weather/ports.ts';

/** Everything that the routes work with: what each feature asks for, put together by the daemon or a test. */
export interface ApiPorts
  extends HttpPorts, UploadPorts, LivePorts, PipelinePorts, MetricsPorts, HealthPorts, WeatherPorts {
  metrics: Metrics | null;
  /** Serves the queue board under its own path; null if the configuration has no admin token. */
  board?: RequestHandler | null;
}
