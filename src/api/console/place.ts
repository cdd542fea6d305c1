import { WaybillError } from '../../core/lib/errors.ts';
import { bundlePath } from '../../core/lib/parameters.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { PlaceParams } from '../releases/releases-routes.ts';
import type { DestinationSummary } from '../runs/pipelines-route.ts';
import type { Form } from './form.ts';
import { paths } from './paths.ts';
import type { ConsolePage } from './show.ts';
import type { Visit } from './visit.ts';
import { permit, type Deed } from './visitor.ts';

/*
 * What pages and forms of a destination have in common: whether the visitor may, the bundle path that is
 * asked for, and the way to the page.
 */

/** The bundle path in a query. */
export const pathParameter = bundlePath({
  description: 'The bundle path; `.` for the root.',
  example: '.',
});

const formQuery = queryParameters({ path: pathParameter });

/** The bundle path that a form is about. Throws `invalid_parameter` for one that leads out. */
export function pathOf(form: Form): string | null {
  const sent = new URLSearchParams({ path: form.get('path') ?? '.' });
  return formQuery.read(`?${sent.toString()}`).path;
}

/** The query to show a page with: that of a form which was refused belongs to the form. */
export function queryOf({ req, refusal }: Visit<PlaceParams>): string {
  return refusal === undefined ? req.url : '?';
}

/** From the pipeline by the destination to a page of it that is called so; null: to its own page. */
export function crumbsTo(
  pipelineId: string,
  id: string,
  label: string | null,
): ConsolePage['crumbs'] & object {
  const pipeline = { label: pipelineId, path: paths.pipeline(pipelineId) };
  if (label === null) return [pipeline, { label: id }];
  return [pipeline, { label: id, path: paths.destination(pipelineId, id) }, { label }];
}

/** Throws `destination_not_found`, and as `permit`. */
export function placeOf(
  { req, res, visitor, access }: Visit<PlaceParams>,
  deed: Deed,
): { pipelineId: string; destination: DestinationSummary } {
  const pipeline = permit(res, visitor, deed, req.params.pipelineId, access);
  const destination = pipeline.destinations.find((one) => one.destination_id === req.params.destinationId);
  if (destination !== undefined) return { pipelineId: pipeline.pipeline_id, destination };
  throw new WaybillError('destination_not_found', 'the pipeline has no such destination', {
    hint: 'the page of the pipeline lists them',
  });
}
