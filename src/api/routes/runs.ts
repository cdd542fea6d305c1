import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import { authenticate } from '../auth.ts';
import { challenge } from '../challenge.ts';
import type { ApiPorts } from '../ports.ts';
import { requestContext } from '../request-context.ts';

/** One run's record. By default the run id is the capability; with `protect_runs` a token of the run's pipeline is asked for. */
export function showRun(
  ports: Pick<ApiPorts, 'http' | 'queue' | 'tokens'>,
): RequestHandler<{ runId: string }> {
  return async (req, res) => {
    const token = ports.http.protectRuns
      ? challenge(req, res, () => authenticate(req.headers.authorization, ports.tokens))
      : undefined;
    if (token !== undefined) requestContext(req).fields['token_id'] = token.id;
    const record = await ports.queue.find(req.params.runId);
    if (record === undefined) {
      throw new WaybillError('run_not_found', 'there is no such run', {
        hint: 'records are kept for server.http.retention, and a restart of the daemon clears them',
      });
    }
    if (token !== undefined && !token.pipelines.has(record.pipeline_id)) {
      throw new WaybillError('forbidden', `the token "${token.id}" is not for the pipeline of this run`);
    }
    res.json(record);
  };
}
