import { freeText } from '../../../core/lib/parameters.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import type { PageRoute } from '../../pages/page-route.ts';
import type { PlaceParams } from '../../releases/releases-routes.ts';
import { look } from '../look.ts';
import { paths } from '../paths.ts';
import { crumbsTo, pathOf, pathParameter, placeOf, queryOf } from '../place.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import { catalogView, openable } from '../views/destination-view.ts';
import { action, page, type Visit } from '../visit.ts';
import { may } from '../visitor.ts';
import { plural, sizeText } from '../words.ts';

const limit = 100;
const longestPath = 1024;
const query = queryParameters({
  path: pathParameter,
  prefix: freeText(longestPath, { description: 'Only outputs whose paths begin so.' }),
  after: freeText(longestPath, { description: 'Only outputs after this path.' }),
  done: freeText(40, { description: 'What was done.' }),
});

/** What is published at a destination, read from it now. */
export const destinationPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}',
  handle: (parts) => page<PlaceParams>(parts, showDestination),
};

async function showDestination(visit: Visit<PlaceParams>): Promise<void> {
  const { pipelineId, destination } = placeOf(visit, 'read');
  const asked = query.read(queryOf(visit));
  const prefix = asked.prefix ?? '';
  const answer = await look(visit, {
    kind: 'catalog',
    path: asked.path,
    prefix,
    after: asked.after,
    limit,
  });
  if (answer.kind !== 'catalog') return;
  const id = destination.destination_id;
  const here = paths.destination(pipelineId, id);
  show(visit, {
    title: `${id} of ${pipelineId}`,
    template: 'destination',
    crumbs: crumbsTo(pipelineId, id, null),
    view: {
      ...catalogView(answer, prefix, visit.parts.clock.now()),
      ...{ id, destination, here, prefix },
      at: (path: string, more: Record<string, string> = {}) =>
        `${here}?${new URLSearchParams({ path, ...more }).toString()}`,
      releasesPath: destination.layout === 'releases' ? paths.releases(pipelineId, id) : null,
      mayVerify: may(visit.visitor, 'verify', pipelineId),
    },
  });
}

/**
 * Leads to what readers find at a bundle path: the page of its scene map, else its index. Where nobody knows
 * their address, to the catalog.
 */
export const openPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/open',
  handle: (parts) =>
    page<PlaceParams>(parts, async (visit) => {
      const { pipelineId, destination } = placeOf(visit, 'read');
      const { path } = query.read(visit.req.url);
      const answer = await look(visit, { kind: 'catalog', path, prefix: '', after: null, limit: 1 });
      if (answer.kind !== 'catalog') return;
      const [first] = openable(answer.catalog?.pages ?? []);
      const here = paths.destination(pipelineId, destination.destination_id);
      const search = path === null ? '' : `?${new URLSearchParams({ path }).toString()}`;
      visit.res.redirect(303, first?.url ?? `${parts.http.basePath}${here}${search}`);
    }),
};

/** Reads every published byte again. It changes nothing, so that the answer is the page itself. */
export const verifyAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/verify',
  handle: (parts) =>
    action<PlaceParams>(
      parts,
      async (visit, form) => {
        const { pipelineId, destination } = placeOf(visit, 'verify');
        const path = pathOf(form);
        const answer = await look(visit, { kind: 'verify', path });
        if (answer.kind !== 'verify') return;
        const id = destination.destination_id;
        show(visit, {
          title: `Verification of ${id}`,
          template: 'verify',
          crumbs: crumbsTo(pipelineId, id, 'Verification'),
          view: {
            reports: answer.reports.map((one) => ({
              ...one,
              outputsText: plural(one.verified, 'output'),
              sizeText: sizeText(one.bytes),
              at: path ?? '.',
            })),
          },
        });
      },
      showDestination,
    ),
};
