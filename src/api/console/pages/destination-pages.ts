import { WaybillError } from '../../../core/lib/errors.ts';
import { bundlePath, freeText } from '../../../core/lib/parameters.ts';
import type { InspectionAnswer, InspectionRequest } from '../../../workers/threads/inspection-request.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import { untilLeft } from '../../http/request/client-connection.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import type { DestinationSummary } from '../../pipelines/pipelines-route.ts';
import { askReleases, disclosed, type PlaceParams } from '../../pipelines/releases-routes.ts';
import { paths, withFlash, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { plural, sizeText } from '../record-text.ts';
import { type ConsolePage, goTo, show } from '../show.ts';
import {
  catalogView,
  openable,
  placementOf,
  type ReleaseRow,
  releaseRows,
} from '../views/destination-view.ts';
import { action, type Form, isAllowed, page, permit, type PipelineOperation, type Visit } from '../visit.ts';

const pathParameter = bundlePath({
  description: 'The bundle path; `.` for the root.',
  example: '.',
});

const outputsPerPage = 100;
const maxPathChars = 1024;
const catalogQuery = queryParameters({
  path: pathParameter,
  prefix: freeText(maxPathChars, { description: 'Only outputs whose paths begin so.' }),
  after: freeText(maxPathChars, { description: 'Only outputs after this path.' }),
  release: freeText(200, { description: 'A release other than the current one.' }),
  done: freeText(40, { description: 'The action.' }),
});

/** Lists a destination's published files. They are read from the destination on every request. */
export const destinationPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}',
  handle: (parts) => page<PlaceParams>(parts, showDestination),
};

async function showDestination(visit: Visit<PlaceParams>): Promise<void> {
  const { pipelineId, destination } = placeOf(visit, 'read');
  const asked = catalogQuery.read(queryOf(visit));
  const prefix = asked.prefix ?? '';
  const answer = await inspect(visit, {
    kind: 'catalog',
    path: asked.path,
    release: asked.path === null ? null : asked.release,
    prefix,
    after: asked.after,
    limit: outputsPerPage,
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
      ...{ id, pipelineId, here, prefix },
      ...{ placement: placementOf(destination), publicBaseUrl: destination.public_base_url },
      pipelinePath: paths.pipeline(pipelineId),
      herePath: (path: string) => withQuery(here, { path }),
      at: (path: string, more: Record<string, string> = {}) =>
        withQuery(here, { path, release: asked.release, ...more }),
      releasesPath: destination.layout === 'releases' ? paths.releases(pipelineId, id) : null,
      mayVerify: isAllowed(visit.visitor, 'verify', pipelineId),
    },
  });
}

/**
 * Redirects to the published page at a bundle path: the scene map if there is one, otherwise the index. If
 * the destination has no public URL, redirects to the catalog page.
 */
export const openPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/open',
  handle: (parts) =>
    page<PlaceParams>(parts, async (visit) => {
      const { pipelineId, destination } = placeOf(visit, 'read');
      const { path } = catalogQuery.read(visit.req.url);
      const answer = await inspect(visit, { kind: 'catalog', path, prefix: '', after: null, limit: 1 });
      if (answer.kind !== 'catalog') return;
      const [first] = openable(answer.catalog?.pages ?? []);
      const here = paths.destination(pipelineId, destination.destination_id);
      visit.res.redirect(303, first?.url ?? `${parts.http.basePath}${withQuery(here, { path })}`);
    }),
};

/** Rereads every published file to verify it. Nothing changes, so this responds with the page itself. */
export const verifyAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/verify',
  audit: { none: 'it changes nothing' },
  handle: (parts) =>
    action<PlaceParams>(
      parts,
      async (visit, form) => {
        const { pipelineId, destination } = placeOf(visit, 'verify');
        const path = pathOf(form);
        const answer = await inspect(visit, { kind: 'verify', path });
        if (answer.kind !== 'verify') return;
        const id = destination.destination_id;
        show(visit, {
          title: `Verification of ${id}`,
          template: 'verify',
          crumbs: crumbsTo(pipelineId, id, 'Verification'),
          view: {
            ...{ destinationId: id, backPath: withQuery(paths.destination(pipelineId, id), { path }) },
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
  handle: (parts) => page<PlaceParams>(parts, showReleases),
};

async function showReleases(visit: Visit<PlaceParams>): Promise<void> {
  const { pipelineId, destination } = placeOf(visit, 'read');
  const { path, from, to, choose, done, undo } = listQuery.read(queryOf(visit));
  const answer = await askReleases(visit.req, visit.res, visit.parts, { kind: 'list', path });
  if (answer.kind !== 'list') return;
  const places = answer.paths.map((one) => ({
    path: one.destinationPath,
    rows: releaseRows(one),
    current: one.releases.find(({ isCurrent }) => isCurrent)?.id ?? null,
  }));
  const mayActivate = isAllowed(visit.visitor, 'releases', pipelineId);
  const choice = mayActivate ? choiceOf(places, choose, path) : null;
  const compared = await differenceOf(visit, {
    path: choice?.path ?? path,
    ...(choice === null ? { from, to } : { from: choice.from?.id ?? null, to: choice.to.id }),
  });
  const id = destination.destination_id;
  const here = paths.releases(pipelineId, id);
  show(visit, {
    title: `Releases of ${id}`,
    template: 'releases',
    crumbs: crumbsTo(pipelineId, id, 'Releases'),
    view: {
      places,
      undo: undoOf(places, undo, done),
      choice,
      compared,
      here,
      comparePath: (at: string, before: string, after: string) =>
        withQuery(here, { path: at, from: before, to: after }),
      choosePath: (at: string, release: string) => withQuery(here, { path: at, choose: release }),
      filesPath: (at: string, release: string) =>
        withQuery(paths.destination(pipelineId, id), { path: at, release }),
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

/** Compares two releases. Returns null if either is missing. Throws the same errors as `inspect`. */
async function differenceOf(
  visit: Visit<PlaceParams>,
  { path, from, to }: { path: string | null; from: string | null; to: string | null },
): Promise<object | null> {
  if (from === null || to === null) return null;
  const answer = await inspect(visit, { kind: 'compare', path, from, to });
  return answer.kind === 'compare' ? { ...answer, from, to } : null;
}

/** Returns the action that switches back to the previous release, or null if that release is gone. */
function undoOf(
  places: readonly ReleasePlace[],
  id: string | null,
  done: string | null,
): { id: string; path: string; verb: 'promote' | 'rollback' } | null {
  const place = places.find(({ rows }) => rows.some((row) => row.id === id && row.verb !== null));
  if (id === null || place === undefined) return null;
  return { id, path: place.path, verb: done === 'rolled_back' ? 'promote' : 'rollback' };
}

/** Switches to a release in one step, without copying files. */
export const activateAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/releases/{release_id}/activate',
  audit: 'release.activate',
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

const formQuery = queryParameters({ path: pathParameter });

/** Returns the form's bundle path. Throws `invalid_parameter` if it is invalid. */
function pathOf(form: Form): string | null {
  const sent = new URLSearchParams({ path: form.get('path') ?? '.' });
  return formQuery.read(`?${sent.toString()}`).path;
}

/**
 * Returns the query string to render the page with. If a form was rejected, `req.url` is the form's action,
 * so its query does not apply.
 */
function queryOf({ req, refusal }: Visit<PlaceParams>): string {
  return refusal === undefined ? req.url : '?';
}

/** Returns the breadcrumbs for one of a destination's pages. `label` is null on its main page. */
function crumbsTo(pipelineId: string, id: string, label: string | null): ConsolePage['crumbs'] & object {
  const pipeline = { label: pipelineId, path: paths.pipeline(pipelineId) };
  if (label === null) return [pipeline, { label: id }];
  return [pipeline, { label: id, path: paths.destination(pipelineId, id) }, { label }];
}

/** Authorizes access to the URL's destination. Throws `destination_not_found`, and `permit`'s errors. */
function placeOf(
  { req, res, visitor, access }: Visit<PlaceParams>,
  operation: PipelineOperation,
): { pipelineId: string; destination: DestinationSummary } {
  const pipeline = permit(res, visitor, operation, req.params.pipelineId, access);
  const destination = pipeline.destinations.find((one) => one.destination_id === req.params.destinationId);
  if (destination !== undefined) return { pipelineId: pipeline.pipeline_id, destination };
  throw new WaybillError('destination_not_found', 'the pipeline has no such destination', {
    hint: 'the page of the pipeline lists them',
  });
}

type Asked = InspectionRequest extends infer R
  ? R extends unknown
    ? Omit<R, 'runId' | 'pipelineId' | 'destinationId'>
    : never
  : never;

/**
 * Reads from the destination in the URL, which the visitor has already been authorized for. Throws the same
 * errors as `PublishingThreads.inspect`.
 */
async function inspect(visit: Visit<PlaceParams>, asked: Asked): Promise<InspectionAnswer> {
  const { req, res, parts } = visit;
  const { pipelineId, destinationId } = req.params;
  const runId = `look.${requestContext(req).id}`;
  const request = { ...asked, pipelineId, destinationId, runId };
  return untilLeft(res, parts.stopping, (signal) => parts.inspect(request, signal)).catch(
    (thrown: unknown) => {
      throw disclosed(thrown);
    },
  );
}
