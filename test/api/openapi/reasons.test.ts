import t from 'tap';
import { reasonOf } from '../../../src/api/openapi/reasons.ts';
import { daemonRoutes } from '../../../src/cli/daemon/daemon-app.ts';
import { errorTable } from '../../../src/core/lib/error-codes.ts';

function routeOf(operationId: string): (typeof daemonRoutes)[number] {
  const route = daemonRoutes.find((one) => one.operationId === operationId);
  if (route === undefined) throw new Error(`there is no ${operationId}`);
  return route;
}

t.test('a reason fits the route', (t) => {
  const cases = [
    ['pipeline_not_found', 'uploadBundle', errorTable.pipeline_not_found.about],
    ['pipeline_not_found', 'listRuns', 'The pipeline does not exist.'],
    ['run_not_found', 'getRun', errorTable.run_not_found.about],
    ['run_not_found', 'listRuns', 'The run of `before` does not exist, or its record has expired.'],
    ['invalid_request', 'startRun', errorTable.invalid_request.about],
    ['invalid_request', 'listRuns', 'A parameter of the request is invalid.'],
    ['forbidden', 'cancelRun', errorTable.forbidden.about],
    ['forbidden', 'reload', 'The token is not the one of `server.admin_token_env`.'],
    ['insufficient_scope', 'cancelRun', 'The token lacks the scope `cancel`.'],
    ['upload_too_large', 'validateSceneMap', 'The document is too large.'],
    ['upload_too_large', 'findMissing', 'The manifest is too large.'],
    ['too_many_files', 'findMissing', 'The manifest lists more than `max_files` files.'],
    ['quota_exceeded', 'followRuns', 'The token or client has reached its quota of event streams.'],
    ['quota_exceeded', 'uploadBundle', 'The token has reached its quota of uploads.'],
    ['internal_error', 'listRuns', errorTable.internal_error.about],
  ] as const;
  for (const [code, operationId, reason] of cases)
    t.equal(reasonOf(code, routeOf(operationId)), reason, `${code} of ${operationId}`);
  t.end();
});
