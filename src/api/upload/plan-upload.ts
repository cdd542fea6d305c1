import type { IncomingMessage, ServerResponse } from 'node:http';
import { jsonDocument } from '../../core/lib/json-document.ts';
import { publicResult } from '../../core/publish/results/public-result.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import { jsonContent } from '../http/json-content.ts';
import type { ResponseObject } from '../http/openapi-types.ts';
import { requestContext } from '../http/request/request-context.ts';
import { untilLeft } from '../http/request/until-left.ts';
import type { StagedUpload, UploadPipeline, UploadPorts } from './ports.ts';

/** The answer to a dry run. */
export const planResponse: ResponseObject = {
  description:
    'With `dry_run=true`: what publishing the bundle would do, as `waybill run --dry-run --format json` prints it. Nothing was published and nothing was kept.',
  content: jsonContent('Plan'),
};

/**
 * What publishing the staged bundle would do at each destination, decided on a worker thread. What fails at a
 * destination is in the result. Throws `aborted` if the client leaves, the reason of `stopping` when the
 * daemon stops, and `worker_failed`.
 */
export async function planUpload(
  req: IncomingMessage,
  res: ServerResponse,
  { plan, stopping }: Pick<UploadPorts, 'plan' | 'stopping'>,
  { pipeline, staged, channel }: { pipeline: UploadPipeline; staged: StagedUpload; channel: string | null },
): Promise<RunResult> {
  return untilLeft(res, stopping, async (signal) => {
    const { directory, bundlePath } = staged;
    // There is no run; the log has the lines of the thread under the id of the request.
    const runId = `dry-run.${requestContext(req).id}`;
    const to = channel === null ? {} : { channel };
    return plan({ runId, pipelineId: pipeline.id, staged: directory, bundlePath, ...to }, signal);
  });
}

export function sendPlan(res: ServerResponse, plan: RunResult): void {
  const body = Buffer.from(jsonDocument('run', publicResult(plan), 0));
  res.statusCode = 200;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.setHeader('Content-Length', body.length);
  res.end(body);
}
