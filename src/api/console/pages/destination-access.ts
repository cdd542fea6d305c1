import { WaybillError } from '../../../core/lib/errors.ts';
import { bundlePath } from '../../../core/lib/parameters.ts';
import type { InspectionAnswer, InspectionRequest } from '../../../workers/threads/inspection-request.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import { untilLeft } from '../../http/request/client-connection.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { DestinationSummary } from '../../pipelines/pipelines-route.ts';
import {
  type DestinationParams,
  type DestinationRequest,
  disclosed,
} from '../../pipelines/releases-routes.ts';
import { paths } from '../paths.ts';
import type { ConsolePage } from '../show.ts';
import { type Form, permit, type PipelineOperation, type Visit } from '../visit.ts';

/* Shared by the pages of a destination: authorization, breadcrumbs, and reading the destination. */

export const pathParameter = bundlePath({
  description: 'The bundle path; `.` for the root.',
  example: '.',
});

const formQuery = queryParameters({ path: pathParameter });

/** Returns the form's bundle path, or the root. Throws `invalid_parameter` if it is invalid. */
export function pathOf(form: Form): string | null {
  const sent = new URLSearchParams({ path: form.get('path') ?? '.' });
  return formQuery.read(`?${sent.toString()}`).path;
}

/**
 * Returns the query string to render the page with. If a form was rejected, `req.url` is the form's action,
 * so its query does not apply.
 */
export function queryOf({ req, refusal }: Visit<DestinationParams>): string {
  return refusal === undefined ? req.url : '?';
}

/** Returns the breadcrumbs for one of a destination's pages. `label` is null on its main page. */
export function crumbsTo(
  pipelineId: string,
  id: string,
  label: string | null,
): ConsolePage['crumbs'] & object {
  const pipeline = { label: pipelineId, path: paths.pipeline(pipelineId) };
  if (label === null) return [pipeline, { label: id }];
  return [pipeline, { label: id, path: paths.destination(pipelineId, id) }, { label }];
}

/** Authorizes access to the URL's destination. Throws `destination_not_found`, and `permit`'s errors. */
export function placeOf(
  { req, res, visitor, access }: Visit<DestinationParams>,
  operation: PipelineOperation,
): { pipelineId: string; destination: DestinationSummary } {
  const pipeline = permit(res, visitor, operation, req.params.pipelineId, access);
  const destination = pipeline.destinations.find((one) => one.destination_id === req.params.destinationId);
  if (destination !== undefined) return { pipelineId: pipeline.pipeline_id, destination };
  throw new WaybillError('destination_not_found', 'the pipeline has no such destination', {
    hint: 'the page of the pipeline lists them',
  });
}

/**
 * Reads from the destination in the URL, which the visitor has already been authorized for. Throws the same
 * errors as `PublishingThreads.inspect`.
 */
export async function inspect(
  visit: Visit<DestinationParams>,
  asked: DestinationRequest<InspectionRequest>,
): Promise<InspectionAnswer> {
  const { req, res, parts } = visit;
  const { pipelineId, destinationId } = req.params;
  const runId = `look.${requestContext(req).id}`;
  const request = { ...asked, pipelineId, destinationId, runId };
  return untilLeft(res, parts.stopping, (signal) => parts.threads.inspect(request, signal)).catch(
    (thrown: unknown) => {
      throw disclosed(thrown);
    },
  );
}
