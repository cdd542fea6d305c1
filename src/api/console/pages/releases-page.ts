import { WaybillError } from '../../../core/lib/errors.ts';
import { freeText } from '../../../core/lib/parameters.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import type { PageRoute } from '../../pages/page-route.ts';
import { askReleases, type PlaceParams } from '../../releases/releases-routes.ts';
import { goTo } from '../go-to.ts';
import { withFlash } from '../flash.ts';
import { look } from '../look.ts';
import { paths } from '../paths.ts';
import { crumbsTo, pathOf, pathParameter, placeOf, queryOf } from '../place.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import { releaseRows, type ReleaseRow } from '../views/destination-view.ts';
import { action, page, type Visit } from '../visit.ts';
import { may } from '../visitor.ts';

const query = queryParameters({
  path: pathParameter,
  from: freeText(200, { description: 'The release that is compared.' }),
  to: freeText(200, { description: 'What it is compared with.' }),
  done: freeText(40, { description: 'What was done.' }),
  undo: freeText(200, { description: 'The release that was current before.' }),
});

/** The releases of a destination, which of them readers have, and what differs between two. */
export const releasesPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/releases',
  handle: (parts) => page<PlaceParams>(parts, showReleases),
};

async function showReleases(visit: Visit<PlaceParams>): Promise<void> {
  const { pipelineId, destination } = placeOf(visit, 'read');
  const { path, from, to, done, undo } = query.read(queryOf(visit));
  const answer = await askReleases(visit.req, visit.res, visit.parts, { kind: 'list', path });
  if (answer.kind !== 'list') return;
  const compared =
    from === null || to === null ? null : await look(visit, { kind: 'compare', path, from, to });
  const places = answer.paths.map((one) => ({
    path: one.destinationPath,
    rows: releaseRows(one),
    current: one.releases.find(({ isCurrent }) => isCurrent)?.id ?? null,
  }));
  const id = destination.destination_id;
  const here = paths.releases(pipelineId, id);
  show(visit, {
    title: `Releases of ${id}`,
    template: 'releases',
    crumbs: crumbsTo(pipelineId, id, 'Releases'),
    view: {
      places,
      undo: undoOf(places, undo, done),
      compared: compared?.kind === 'compare' ? { ...compared, from, to } : null,
      here,
      comparePath: (at: string, before: string, after: string) =>
        `${here}?${new URLSearchParams({ path: at, from: before, to: after }).toString()}`,
      mayActivate: may(visit.visitor, 'releases', pipelineId),
    },
  });
}

/** What takes back the last action: the release that was current before it, if it still can be. */
function undoOf(
  places: readonly { path: string; rows: readonly ReleaseRow[] }[],
  id: string | null,
  done: string | null,
): { id: string; path: string; verb: 'promote' | 'rollback' } | null {
  const place = places.find(({ rows }) => rows.some((row) => row.id === id && row.verb !== null));
  if (id === null || place === undefined) return null;
  return { id, path: place.path, verb: done === 'rolled_back' ? 'promote' : 'rollback' };
}

/** Gives readers a release: one step, and no byte is moved. */
export const activateAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/releases/{release_id}/activate',
  handle: (parts) =>
    action<PlaceParams & { releaseId: string }>(
      parts,
      async (visit, form) => {
        const { req, res } = visit;
        const { pipelineId, destination } = placeOf(visit, 'releases');
        const verb = form.get('verb');
        if (verb !== 'promote' && verb !== 'rollback')
          throw new WaybillError(
            'invalid_request',
            'the form does not say whether to promote or to roll back',
          );
        const path = pathOf(form);
        const asked = { kind: 'activate', path, release: req.params.releaseId, verb, dryRun: false } as const;
        const answer = await askReleases(req, res, parts, asked);
        if (answer.kind === 'activate' && answer.from !== answer.to)
          parts.log.info(
            { pipeline_id: pipelineId, destination_id: destination.destination_id, to: answer.to },
            verb === 'promote' ? 'release promoted' : 'release rolled back to',
          );
        const here = paths.releases(pipelineId, destination.destination_id);
        const undo = answer.kind === 'activate' && answer.from !== answer.to ? answer.from : null;
        const next = undo === null ? here : `${here}?${new URLSearchParams({ undo }).toString()}`;
        goTo(visit, withFlash(next, verb === 'promote' ? 'promoted' : 'rolled_back'));
      },
      showReleases,
    ),
};
