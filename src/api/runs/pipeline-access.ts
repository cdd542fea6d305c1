import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../core/errors.ts';
import { authenticate, type Token } from '../http/auth.ts';
import { challenge } from '../http/challenge.ts';
import type { ApiPorts } from '../ports.ts';
import { requestContext } from '../http/request-context.ts';

/**
 * The token of a request about the pipeline `id`, of any kind. Throws `unauthorized`, `pipeline_not_found` or
 * `forbidden`, in this order, and notes token and pipeline for the log.
 */
export function pipelineToken(
  ports: Pick<ApiPorts, 'tokens' | 'pipelines' | 'sourcePipelines'>,
  req: IncomingMessage,
  res: ServerResponse,
  id: string,
): Token {
  const { fields } = requestContext(req);
  const token = challenge(req, res, () => authenticate(req.headers.authorization, ports.tokens));
  fields['token_id'] = token.id;
  if (!ports.pipelines.has(id) && !ports.sourcePipelines.has(id)) {
    throw new WaybillError('pipeline_not_found', 'there is no such pipeline', {
      hint: 'check the pipeline id in the path',
    });
  }
  if (!token.pipelines.has(id)) {
    throw new WaybillError('forbidden', `the token "${token.id}" is not for the pipeline "${id}"`, {
      hint: 'use the token of this pipeline, or have the pipeline added to upload_tokens',
    });
  }
  fields['pipeline_id'] = id;
  return token;
}
