import type { ApiServices } from './api-services.ts';
import { listAuditRoute } from './daemon/audit-route.ts';
import { healthRoute, liveRoute, readyRoute } from './daemon/health-routes.ts';
import { reloadRoute } from './daemon/reload-route.ts';
import { listUndeliveredRoute, redeliverRoute } from './daemon/undelivered-routes.ts';
import type { Route } from './http/route.ts';
import { metricsRoute } from './metrics/metrics-route.ts';
import { apiPageRoute, openApiRoute } from './openapi/openapi-routes.ts';
import { pausePipelineRoute, resumePipelineRoute } from './pipelines/pause-routes.ts';
import { listPipelinesRoute } from './pipelines/pipelines-route.ts';
import {
  activateReleaseRoute,
  compareReleasesRoute,
  listReleasesRoute,
  showReleaseRoute,
} from './pipelines/releases-routes.ts';
import { tokenRoute } from './publishers/token-route.ts';
import { followRunRoute, followRunsRoute } from './runs/follow-routes.ts';
import { listAllRunsRoute, listRunsRoute } from './runs/list-runs.ts';
import { cancelRunRoute, rerunRoute, retryRunRoute } from './runs/run-action-routes.ts';
import { showRunRoute } from './runs/run-route.ts';
import { startRunRoute } from './runs/start-run-route.ts';
import { sceneMapSchemaRoute, validateSceneMapRoute } from './scene-maps/scene-map-routes.ts';
import { createUploadRoute, listUploadsRoute, uploadOptionsRoute } from './uploads/create-upload-routes.ts';
import { missingRoute } from './uploads/missing-route.ts';
import { removeUploadRoute, sendUploadRoute, showUploadRoute } from './uploads/one-upload-routes.ts';
import { uploadFormRoute, uploadRoute } from './uploads/upload-routes.ts';

const publishing: readonly Route<ApiServices>[] = [
  uploadRoute,
  uploadFormRoute,
  missingRoute,
  createUploadRoute,
  uploadOptionsRoute,
  listUploadsRoute,
  showUploadRoute,
  sendUploadRoute,
  removeUploadRoute,
  showRunRoute,
  followRunRoute,
  startRunRoute,
  listRunsRoute,
  cancelRunRoute,
  retryRunRoute,
  rerunRoute,
  listAllRunsRoute,
  listPipelinesRoute,
  followRunsRoute,
  pausePipelineRoute,
  resumePipelineRoute,
  listReleasesRoute,
  showReleaseRoute,
  compareReleasesRoute,
  activateReleaseRoute,
  validateSceneMapRoute,
  sceneMapSchemaRoute,
];

const daemon: readonly Route<ApiServices>[] = [
  healthRoute,
  readyRoute,
  liveRoute,
  tokenRoute,
  reloadRoute,
  listAuditRoute,
  listUndeliveredRoute,
  redeliverRoute,
  metricsRoute,
  openApiRoute,
  apiPageRoute,
];

/**
 * Returns all routes of the daemon, in the order of the OpenAPI document. `added` contains the routes of
 * features that `api` does not import, such as the weather.
 */
export function routesWith<Ports>(added: readonly Route<Ports>[]): readonly Route<ApiServices & Ports>[] {
  return [...publishing, ...added, ...daemon];
}
