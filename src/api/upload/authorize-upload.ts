import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Token } from '../http/auth.ts';
import { keepAuthorized } from '../http/request/authority.ts';
import { authorizePipeline } from '../runs/pipeline-access.ts';
import type { UploadPipeline, UploadPorts } from './ports.ts';

/** Who may upload to the pipeline of the path, by whatever protocol. Throws as `authorizePipeline`. */
export function authorizeUpload(
  req: IncomingMessage & { params: { pipelineId: string } },
  res: ServerResponse,
  { configured, clock }: Pick<UploadPorts, 'configured' | 'clock'>,
): { token: Token; pipeline: UploadPipeline } {
  return keepAuthorized(req, () => {
    const { tokens, uploadPipelines } = configured.get();
    return authorizePipeline(req, res, {
      tokens,
      clock,
      scope: 'upload',
      id: req.params.pipelineId,
      find: (id) => uploadPipelines.get(id),
      unknown: 'there is no such pipeline, or it takes no uploads',
    });
  });
}
