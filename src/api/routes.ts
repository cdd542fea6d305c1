import type { Route } from './http/route.ts';
import { apiPageRoute } from './openapi/api-page-route.ts';
import type { ApiPorts } from './ports.ts';
import { healthRoute, readyRoute } from './health/health-route.ts';
import { liveRoute } from './health/live-route.ts';
import { followRunRoute, followRunsRoute } from './live/live-routes.ts';
import { metricsRoute } from './metrics/metrics-route.ts';
import { listUndeliveredRoute, redeliverRoute } from './notifiers/undelivered-routes.ts';
import { openApiRoute } from './openapi/openapi-route.ts';
import { activateReleaseRoute, listReleasesRoute } from './releases/releases-routes.ts';
import { reloadRoute } from './reload/reload-route.ts';
import { listUploadsRoute } from './resumable/list-route.ts';
import { sendUploadRoute } from './resumable/send-route.ts';
import { removeUploadRoute, showUploadRoute } from './resumable/upload-routes.ts';
import { createUploadRoute, uploadOptionsRoute } from './resumable/uploads-routes.ts';
import { cancelRunRoute } from './runs/cancel-route.ts';
import { pausePipelineRoute, resumePipelineRoute } from './runs/pause-routes.ts';
import { listRunsRoute, startRunRoute } from './runs/pipeline-runs-routes.ts';
import { listPipelinesRoute } from './runs/pipelines-route.ts';
import { listAllRunsRoute } from './runs/run-pages.ts';
import { rerunRoute } from './runs/rerun-route.ts';
import { retryRunRoute } from './runs/retry-route.ts';
import { showRunRoute } from './runs/run-route.ts';
import { sceneMapSchemaRoute, validateSceneMapRoute } from './scene-maps/scene-map-routes.ts';
import { missingRoute } from './upload/missing-route.ts';
import { uploadFormRoute } from './upload/upload-form-route.ts';
import { uploadRoute } from './upload/upload-route.ts';

const publishing: readonly Route<ApiPorts>[] = [
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
  activateReleaseRoute,
  validateSceneMapRoute,
  sceneMapSchemaRoute,
];

const daemon: readonly Route<ApiPorts>[] = [
  healthRoute,
  readyRoute,
  liveRoute,
  reloadRoute,
  listUndeliveredRoute,
  redeliverRoute,
  metricsRoute,
  openApiRoute,
  apiPageRoute,
];

/**
 * Every route of the daemon in the order of the OpenAPI document. `added` are the routes of another part of
 * the program, which the caller passes because `api` does not import it.
 */
export function routesWith<Ports>(added: readonly Route<Ports>[]): readonly Route<ApiPorts & Ports>[] {
  return [...publishing, ...added, ...daemon];
}
