import type { LookAnswer, LookRequest } from '../../workers/threads/look-request.ts';
import { requestContext } from '../http/request/request-context.ts';
import { untilLeft } from '../http/request/until-left.ts';
import { disclosed, type PlaceParams } from '../releases/releases-routes.ts';
import type { Visit } from './visit.ts';

type Asked = LookRequest extends infer R
  ? R extends unknown
    ? Omit<R, 'runId' | 'pipelineId' | 'destinationId'>
    : never
  : never;

/** Reads at the destination of the path, for somebody who may. Throws as `Coordinator.look`. */
export async function look(visit: Visit<PlaceParams>, asked: Asked): Promise<LookAnswer> {
  const { req, res, parts } = visit;
  const { pipelineId, destinationId } = req.params;
  const runId = `look.${requestContext(req).id}`;
  const request = { ...asked, pipelineId, destinationId, runId };
  return untilLeft(res, parts.stopping, (signal) => parts.look(request, signal)).catch((thrown: unknown) => {
    throw disclosed(thrown);
  });
}
