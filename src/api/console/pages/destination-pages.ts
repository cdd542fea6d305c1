import { freeText } from '../../../core/lib/parameters.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { CatalogPage } from '../../../workers/threads/inspection-request.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import type { DestinationSummary } from '../../pipelines/pipelines-route.ts';
import type { DestinationParams } from '../../pipelines/releases-routes.ts';
import { paths, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { unpublishedMark } from '../record-text.ts';
import { show } from '../show.ts';
import { catalogView, newestRunAt, openable, placementOf } from '../views/destination-view.ts';
import { publishedAt } from '../views/pipeline-view.ts';
import { type Starter, starterOf } from '../views/run-words.ts';
import { verificationView, type VerifiedPath } from '../views/verification-view.ts';
import { action, firstRunOf, isAllowed, page, placesFor, type Visit } from '../visit.ts';
import { crumbsTo, inspect, pathOf, pathParameter, placeOf, queryOf } from './destination-access.ts';

const filesPerPage = 100;
const maxPathChars = 1024;
const catalogQuery = queryParameters({
  path: pathParameter,
  prefix: freeText(maxPathChars, { description: 'Only files whose paths begin so.' }),
  after: freeText(maxPathChars, { description: 'Only files after this path.' }),
  release: freeText(200, { description: 'A release other than the current one.' }),
  done: freeText(40, { description: 'The action.' }),
});

/** Lists a destination's published files. They are read from the destination on every request. */
export const destinationPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}',
  handle: (parts) => page<DestinationParams>(parts, showDestination),
};

async function showDestination(visit: Visit<DestinationParams>): Promise<void> {
  const { pipelineId, destination } = placeOf(visit, 'read');
  const { visitor, access, parts } = visit;
  const asked = catalogQuery.read(queryOf(visit));
  const prefix = asked.prefix ?? '';
  const id = destination.destination_id;
  const recent = await recentRuns(visit);
  const runs = runsByPath(recent, id);
  const answer = await catalogOf(visit, asked, runs.keys().next().value ?? null);
  if (answer === null) return;
  const here = paths.destination(pipelineId, id);
  const { catalog } = answer;
  const run = catalog === null ? null : publisherOf(recent, runs, { ...catalog, destinationId: id });
  const place = placesFor(visitor, pipelineId, access).get(id) ?? null;
  const newest = newestRunAt(recent, id, { place, now: parts.clock.now() });
  const published = endsOf(runs);
  const lastKnown = catalog === null ? publishedAt(recent, id, parts.clock.now()).published : [];
  show(visit, {
    title: `${id} of ${pipelineId}`,
    template: 'destination',
    crumbs: crumbsTo(pipelineId, id, null),
    view: {
      ...catalogView(answer, {
        ...{ prefix, published, now: parts.clock.now() },
        bundleFiles: run === null ? null : filesOf(run, id),
      }),
      ...{ id, pipelineId, here, prefix },
      ...{ placement: placementOf(destination), publicBaseUrl: destination.public_base_url },
      ...{ place, newest },
      mark: newest?.mark ?? (catalog === null ? unpublishedMark : null),
      isLost: newest?.error?.code === 'unmanaged_content' && lastKnown.length > 0,
      // At a destination with several paths, readers get all of them.
      isNewest: catalog?.destinationPath === runs.keys().next().value,
      hasPaths: destination.mapping === 'preserve_relative' && catalog?.destinationPath !== '.',
      mayRerun: newest?.isRerunnable === true && isAllowed(visitor, 'rerun', pipelineId),
      lastKnown: lastKnown.map((one) => ({ ...one, by: publishedBy(runs.get(one.path) ?? null) })),
      publishedBy: publishedBy(run),
      firstRun: firstRunOf(visit, pipelineId),
      herePath: (path: string) => withQuery(here, { path }),
      at: (path: string, more: Record<string, string> = {}) =>
        withQuery(here, { path, release: asked.release, ...more }),
      releasesPath: destination.layout === 'releases' ? paths.releases(pipelineId, id) : null,
      mayVerify: isAllowed(visitor, 'verify', pipelineId),
    },
  });
}

function publishedBy(
  run: RunRecord | null,
): { href: string; starter: Starter; bundle: string | null } | null {
  if (run === null) return null;
  const bundle = run.bundle_path ?? '.';
  return { href: paths.run(run.run_id), starter: starterOf(run), bundle: bundle === '.' ? null : bundle };
}

/** Returns the number of files in the bundle that a run published at a destination; null if not known. */
function filesOf({ destinations }: RunRecord, destinationId: string): number | null {
  const here = destinations.filter((one) => one.destination_id === destinationId);
  const [one] = here;
  if (one === undefined || here.length > 1) return null;
  return one.outputs_written + one.outputs_linked + one.outputs_kept;
}

/** Returns a page of the catalog. If no bundle path is asked for, it is the one of the newest bundle. */
async function catalogOf(
  visit: Visit<DestinationParams>,
  asked: ReturnType<typeof catalogQuery.read>,
  newest: string | null,
): Promise<CatalogPage | null> {
  const read = async (path: string | null): Promise<CatalogPage | null> => {
    const answer = await inspect(visit, {
      kind: 'catalog',
      path,
      release: asked.path === null ? null : asked.release,
      prefix: asked.prefix ?? '',
      after: asked.after,
      limit: filesPerPage,
    });
    return answer.kind === 'catalog' ? answer : null;
  };
  const answer = await read(asked.path);
  const isOther = newest !== null && answer?.catalog?.destinationPath !== newest;
  return asked.path === null && isOther && answer?.paths.includes(newest) === true ? read(newest) : answer;
}

/** The number of runs among which the ones that published here are searched. */
const searchedRuns = 100;

/** Returns the newest runs of the pipeline that publish for all readers, newest first. */
async function recentRuns({ req, parts }: Visit<DestinationParams>): Promise<RunRecord[]> {
  const { runs } = await parts.queue.list([req.params.pipelineId], { limit: searchedRuns });
  return runs.filter(({ channel }) => channel === null);
}

/** Returns the newest run that published to each bundle path of a destination, newest first. */
function runsByPath(runs: readonly RunRecord[], destinationId: string): Map<string, RunRecord> {
  const found = new Map<string, RunRecord>();
  for (const run of runs)
    for (const { destination_id: id, destination_path: path, error, action: kind } of run.destinations)
      if (id === destinationId && error === null && path !== null && kind !== 'skip_same' && !found.has(path))
        found.set(path, run);
  return found;
}

/** Returns the times at which runs ended. */
function endsOf(runs: ReadonlyMap<string, RunRecord>): Map<string, string> {
  return new Map([...runs].map(([path, { accepted_at: at, finished_at: end }]) => [path, end ?? at]));
}

/** Returns the run that published what a page shows; null if it is not known. */
function publisherOf(
  recent: readonly RunRecord[],
  byPath: ReadonlyMap<string, RunRecord>,
  { destinationId, destinationPath, release }: ShownCatalog,
): RunRecord | null {
  if (release === null) return byPath.get(destinationPath) ?? null;
  // After a rollback, it is not the newest run.
  const isOfRelease = ({ destinations }: RunRecord): boolean =>
    destinations.some(
      (one) => one.destination_id === destinationId && one.release === release && one.action !== 'skip_same',
    );
  return recent.findLast(isOfRelease) ?? null;
}

interface ShownCatalog {
  destinationId: string;
  destinationPath: string;
  release: string | null;
}

/**
 * Redirects to the published page at a bundle path: the scene map if there is one, otherwise the index. If
 * the destination has no public URL, redirects to the catalog page.
 */
export const openPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/open',
  handle: (parts) =>
    page<DestinationParams>(parts, async (visit) => {
      const { pipelineId, destination } = placeOf(visit, 'read');
      const { path } = catalogQuery.read(visit.req.url);
      const answer = await inspect(visit, { kind: 'catalog', path, prefix: '', after: null, limit: 1 });
      if (answer.kind !== 'catalog') return;
      const [first] = openable(answer.catalog?.pages ?? []);
      const here = paths.destination(pipelineId, destination.destination_id);
      visit.res.redirect(303, first?.url ?? `${parts.http.basePath}${withQuery(here, { path })}`);
    }),
};

/**
 * Rereads every published file of all bundles, or of one, to verify it. Nothing changes, so this responds
 * with the page itself.
 */
export const verifyAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/destinations/{destination_id}/verify',
  audit: { none: 'it changes nothing' },
  handle: (parts) =>
    action<DestinationParams>(
      parts,
      async (visit, form) => {
        const { pipelineId, destination } = placeOf(visit, 'verify');
        const started = parts.clock.now();
        const only = form.has('path') ? pathOf(form) : null;
        const verified = await verifyPaths(visit, destination, only);
        const id = destination.destination_id;
        const here = paths.destination(pipelineId, id);
        const published = endsOf(runsByPath(await recentRuns(visit), id));
        show(visit, {
          title: `Verification of ${id}`,
          template: 'verify',
          crumbs: crumbsTo(pipelineId, id, 'Verification'),
          view: {
            ...verificationView(verified, { started, now: parts.clock.now(), published }),
            ...{ destinationId: id, here, path: only },
            repair: `waybill verify --config waybill.yml --pipeline ${pipelineId} --destination ${id} --repair`,
            at: (path: string) => withQuery(here, { path }),
          },
        });
      },
      showDestination,
    ),
};

/** Verifies one bundle path, or all of them if `only` is null. */
async function verifyPaths(
  visit: Visit<DestinationParams>,
  destination: DestinationSummary,
  only: string | null,
): Promise<VerifiedPath[]> {
  const verified: VerifiedPath[] = [];
  for (const path of only === null ? await pathsToVerify(visit, destination) : [only]) {
    const answer = await inspect(visit, { kind: 'verify', path });
    if (answer.kind === 'verify') verified.push(...answer.reports.map((report) => ({ path, report })));
  }
  return verified;
}

/** From the root, all bundle paths are verified at once, but with the former releases of each. */
async function pathsToVerify(
  visit: Visit<DestinationParams>,
  { layout, mapping }: DestinationSummary,
): Promise<string[]> {
  if (layout === 'in_place' || mapping === 'fixed') return ['.'];
  const answer = await inspect(visit, { kind: 'catalog', path: null, prefix: '', after: null, limit: 1 });
  return answer.kind === 'catalog' ? answer.paths : [];
}
