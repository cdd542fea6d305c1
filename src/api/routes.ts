import type { Route } from './route.ts';
import { apiPageRoute } from './routes/api-page.ts';
import { healthRoute } from './routes/health.ts';
import { metricsRoute } from './routes/metrics.ts';
import { openApiRoute } from './routes/openapi.ts';
import { listRunsRoute, startRunRoute } from './routes/pipeline-runs.ts';
import { showRunRoute } from './routes/runs.ts';
import { sceneMapSchemaRoute, validateSceneMapRoute } from './routes/scene-maps.ts';
import { uploadFormRoute } from './routes/upload-form.ts';
import { uploadRoute } from './routes/upload.ts';
import { weatherRoutes } from './routes/weather.ts';

/** Every route of the HTTP API, in the order in which the document shows them. */
export const routes: readonly Route[] = [
  uploadRoute,
  uploadFormRoute,
  showRunRoute,
  startRunRoute,
  listRunsRoute,
  validateSceneMapRoute,
  sceneMapSchemaRoute,
  ...weatherRoutes,
  healthRoute,
  metricsRoute,
  openApiRoute,
  apiPageRoute,
];
