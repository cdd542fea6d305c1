import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import { WaybillError } from '../core/errors.ts';
import type { ApiPorts } from './ports.ts';
import { sendProblem } from './problem.ts';
import { requestLog } from './request-log.ts';
import { health } from './routes/health.ts';
import { showRun } from './routes/runs.ts';
import { sceneMapRoutes } from './routes/scene-maps.ts';
import { upload } from './routes/upload.ts';

/** The HTTP API over its ports: which path leads where, and nothing else. */
export function createApp(ports: ApiPorts): Express {
  const routes = express.Router({ strict: true, caseSensitive: true });
  routes.route('/healthz').get(health(ports)).all(onlyMethods('GET, HEAD'));
  routes.route('/runs/:runId').get(showRun(ports)).all(onlyMethods('GET, HEAD'));
  routes.route('/v1/pipelines/:pipelineId/upload').post(upload(ports)).all(onlyMethods('POST'));

  routes.use(sceneMapRoutes());
  if (ports.board != null) routes.use('/admin/queues', ports.board);

  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('trust proxy', ports.http.trustedProxies);
  app.use(requestLog(ports.log, ports.clock));
  app.use(ports.http.basePath, routes);
  app.use(noSuchRoute);
  app.use(answerError);
  return app;
}

function onlyMethods(allow: string): RequestHandler {
  return (req, res) => {
    res.setHeader('Allow', allow);
    throw new WaybillError('method_not_allowed', `${req.method} is not possible here`, {
      hint: `use ${allow}`,
    });
  };
}

const noSuchRoute: RequestHandler = () => {
  throw new WaybillError('not_found', 'there is nothing under this path', {
    hint: 'docs/http-api.md lists the routes',
  });
};

/** The four arguments are how express knows an error handler. */
const answerError: ErrorRequestHandler = (error: unknown, req, res, next) => {
  // A percent-encoding in the path that decodes to nothing; the router throws it before any route is reached.
  const thrown =
    error instanceof URIError
      ? new WaybillError('not_found', 'the path is not valid percent-encoding')
      : error;
  sendProblem(req, res, thrown).catch(next);
};
