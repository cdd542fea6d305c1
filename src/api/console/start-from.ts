import { WaybillError } from '../../core/lib/errors.ts';
import { startRun } from '../../workers/queue/start-run.ts';
import { requestContext } from '../http/request/request-context.ts';
import { requireChannel } from '../runs/channel-query.ts';
import type { Form } from './form.ts';
import type { Visit } from './visit.ts';
import { permit } from './visitor.ts';

export interface PipelineParams {
  pipelineId: string;
}

/** Starts a run of what the source holds, and resolves with its id. Throws as `permit` and `startRun`. */
export async function startFrom(visit: Visit<PipelineParams>, form: Form): Promise<string> {
  const { req, res, visitor, access, parts } = visit;
  const { pipeline_id: pipelineId } = permit(res, visitor, 'start', req.params.pipelineId, access);
  const channels = access.sourcePipelines.get(pipelineId);
  if (channels === undefined)
    throw new WaybillError('pipeline_takes_uploads', `the pipeline "${pipelineId}" has no source to read`, {
      hint: 'upload a bundle to it',
    });
  const channel = channelOf(visit, form);
  const { fields, trace } = requestContext(req);
  const { record } = await startRun(parts, { pipelineId, channel }, trace);
  Object.assign(fields, { run_id: record.run_id, pipeline_id: pipelineId });
  return record.run_id;
}

/** That the form asks for; null for what is current. Throws `channel_not_found`. */
export function channelOf({ req, access }: Visit<PipelineParams>, form: Form): string | null {
  const { pipelineId: id } = req.params;
  const asked = form.get('channel') ?? '';
  if (asked === '') return null;
  requireChannel({ id, channels: access.sourcePipelines.get(id) ?? [] }, asked);
  return asked;
}
