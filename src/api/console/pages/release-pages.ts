import { WaybillError } from '../../../core/lib/errors.ts';
import { freeText } from '../../../core/lib/parameters.ts';
import type { ComparedFiles } from '../../../workers/threads/inspection-request.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { askReleases, type DestinationParams } from '../../pipelines/releases-routes.ts';
import { paths, withFlash, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { goTo, show } from '../show.ts';
import { keptText } from '../views/destination-view.ts';
import {
  activatorOf,
  differenceView,
  effectText,
  releaseChoices,
  type ReleaseRow,
  releaseRows,
  type ReleaseRun,
} from '../views/release-view.ts';
import { starterText } from '../views/run-words.ts';
import { action, isAllowed, page, type Visit } from '../visit.ts';
import { crumbsTo, inspect, pathOf, pathParameter, placeOf, queryOf } from './destination-access.ts';

const listQuery = queryParameters({
  path: pathParameter,
  from: freeText(200, { description: 'The release that is compared.' }),
  to: freeText(200, { description: 'What it is compared with.' }),
  choose: freeText(200, { description: 'The release to confirm.' }),
  done: freeText(40, { description: 'The action.' }),
  undo: freeText(200, { description: 'The release that was current before.' }),
});

/** Lists a destination's releases, marks the current one, and compares any two of them. */
export const releasesPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/releases',
  handle: (parts) => page<DestinationParams>(parts, showReleases),
};

async function showReleases(visit: Visit<DestinationParams>): Promise<void> {
  const { pipelineId, destination } = placeOf(visit, 'read');
  const { path, from, to, choose, done, undo } = listQuery.read(queryOf(visit));
  const answer = await askReleases(visit.req, visit.res, visit.parts, { kind: 'list', path });
  if (answer.kind !== 'list') return;
  const now = visit.parts.clock.now();
  const places = answer.paths.map((one) => ({
    path: one.destinationPath,
    rows: releaseRows(one, now),
    foreignTarget: one.foreignTarget,
  }));
  const mayActivate = isAllowed(visit.visitor, 'releases', pipelineId);
  const choice = mayActivate ? choiceOf(places, choose, path) : null;
  const compared = await differenceOf(visit, {
    path: choice?.path ?? path,
    ...(choice === null ? { from, to } : { from: choice.from?.id ?? null, to: choice.to.id }),
  });
  const id = destination.destination_id;
  const here = paths.releases(pipelineId, id);
  const runOf = await releaseRuns(visit, id);
  const isBack = choice?.to.verb === 'rollback';
  const step = choice !== null ? (isBack ? 'Roll back' : 'Promote') : compared !== null ? 'Compare' : null;
  show(visit, {
    title: `Releases of ${id}`,
    template: 'releases',
    crumbs: [
      ...crumbsTo(pipelineId, id, null).slice(0, -1),
      { label: id, path: paths.destination(pipelineId, id) },
      ...(step === null ? [{ label: 'Releases' }] : [{ label: 'Releases', path: here }, { label: step }]),
    ],
    view: {
      places,
      undo: undoOf(places, undo, done),
      choice,
      compared: comparedOf(places, compared),
      here,
      runOf,
      activatorOf: (row: ReleaseRow) => activatorOf(runOf(row.id), row),
      keptOf: ({ id: release, outputs }: ReleaseRow) =>
        keptText({ release, total: outputs ?? 0, kept: 0 }, runOf(release)?.files ?? null),
      comparePath: (at: string, before: string, after: string) =>
        withQuery(here, { path: at, from: before, to: after }),
      choosePath: (at: string, release: string) => withQuery(here, { path: at, choose: release }),
      filesPath: (at: string, release: string) =>
        withQuery(paths.destination(pipelineId, id), { path: at, release }),
      isPublic: destination.public_base_url !== null,
      openPath: (at: string) => withQuery(paths.open(pipelineId, id), { path: at }),
      destinationId: id,
      mayActivate,
    },
  });
}

interface ReleasePlace {
  path: string;
  rows: readonly ReleaseRow[];
}

/** A release switch that the visitor still has to confirm. */
interface Choice {
  path: string;
  /** null if no release is current. */
  from: ReleaseRow | null;
  to: ReleaseRow;
}

function choiceOf(places: readonly ReleasePlace[], id: string | null, path: string | null): Choice | null {
  if (id === null) return null;
  for (const place of places) {
    const to = place.rows.find((row) => row.id === id && row.verb !== null);
    if (to !== undefined && (path === null || path === place.path))
      return { path: place.path, from: place.rows.find(({ isCurrent }) => isCurrent) ?? null, to };
  }
  return null;
}

interface Difference extends ComparedFiles {
  from: string;
  to: string;
}

/** Returns a comparison, and the releases at the same bundle path that can be compared instead. */
function comparedOf(places: readonly ReleasePlace[], compared: Difference | null): object | null {
  if (compared === null) return null;
  const { from, to } = compared;
  const place = places.find(({ rows }) => rows.some(({ id }) => id === to));
  const rows = place?.rows ?? [];
  const [before, after] = [from, to].map((id) => rows.find((row) => row.id === id) ?? null);
  // The switch whose effect the comparison shows.
  const next = before?.isCurrent === true && after?.verb != null ? after : null;
  return {
    ...{ from, to, before, after, next, ...differenceView(compared) },
    ...{ path: place?.path ?? '.', choices: releaseChoices(rows) },
    effect: next?.verb == null ? null : effectText(compared, next.verb),
    isBackward: after?.isCurrent === true && before?.verb === 'rollback',
  };
}

/** The number of runs among which the ones that published the releases are searched. */
const searchedRuns = 200;

/** Returns a function from a release to the run that published it; null if it is not known. */
async function releaseRuns(
  { req, parts }: Visit<DestinationParams>,
  destinationId: string,
): Promise<(release: string) => ReleaseRun | null> {
  const { runs } = await parts.queue.list([req.params.pipelineId], { limit: searchedRuns });
  const found = new Map<string, ReleaseRun>();
  for (const run of runs)
    for (const { destination_id: id, release, action: kind, ...one } of run.destinations)
      if (id === destinationId && release !== null && kind !== 'skip_same')
        found.set(release, {
          files: one.outputs_written + one.outputs_linked + one.outputs_kept,
          ...{ href: paths.run(run.run_id), starter: starterText(run) },
          ...{ startedAt: run.started_at, finishedAt: run.finished_at },
        });
  return (release) => found.get(release) ?? null;
}

/** Compares two releases. Returns null if either is missing. Throws the same errors as `inspect`. */
async function differenceOf(
  visit: Visit<DestinationParams>,
  { path, from, to }: { path: string | null; from: string | null; to: string | null },
): Promise<Difference | null> {
  if (from === null || to === null) return null;
  const answer = await inspect(visit, { kind: 'compare', path, from, to });
  return answer.kind === 'compare' ? { ...answer, from, to } : null;
}

/** Returns the action that switches back to the previous release, or null if that release is gone. */
function undoOf(
  places: readonly ReleasePlace[],
  id: string | null,
  done: string | null,
): (Pick<ReleaseRow, 'id' | 'bundle' | 'name' | 'made' | 'verb'> & { path: string }) | null {
  for (const { rows, path } of places) {
    const row = rows.find((one) => one.id === id && one.verb !== null);
    if (row === undefined) continue;
    const { bundle, name, made } = row;
    return { id: row.id, bundle, name, made, path, verb: done === 'rolled_back' ? 'promote' : 'rollback' };
  }
  return null;
}

/** Switches to a release in one step, without copying files. */
export const activateAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/releases/{release_id}/activate',
  audit: 'release.activate',
  handle: (parts) =>
    action<DestinationParams & { releaseId: string }>(
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
        if (verb === 'rollback') requestContext(req).act = 'release.rollback';
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
        goTo(visit, withFlash(withQuery(here, { undo }), verb === 'promote' ? 'promoted' : 'rolled_back'));
      },
      showReleases,
    ),
};
