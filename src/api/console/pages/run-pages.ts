import { runStatuses } from '../../../workers/queue/run-record.ts';
import { newRunId } from '../../../workers/queue/start-run.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { nextOfAll, searchParameters } from '../../runs/list-runs.ts';
import { cancelFor, retryFor } from '../../runs/run-action-routes.ts';
import { findRun } from '../../runs/run-route.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { goTo, show } from '../show.ts';
import { runLines } from '../views/pipeline-view.ts';
import { runView } from '../views/run-view.ts';
import { action, type Deed, may, page, permit, seenBy, type Visit } from '../visit.ts';

/** Shows one run: its stages, its actions at each destination, and the available actions. */
export const runPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/runs/{run_id}',
  handle: (parts) => page<RunParams>(parts, showRun),
};

interface RunParams {
  runId: string;
}

async function showRun(visit: Visit<RunParams>): Promise<void> {
  const { req, res, visitor, access, parts } = visit;
  const record = await findRun(visitor.isAdmin ? null : visitor.token, req.params.runId, parts);
  const { pipeline_id: pipelineId, run_id: runId } = record;
  const pipeline = permit(res, visitor, 'read', pipelineId, access);
  const ids = record.channel === null ? pipeline.destinations.map((one) => one.destination_id) : [];
  const view = runView(record, ids, parts.clock.now());
  show(visit, {
    title: view.title,
    template: 'run',
    crumbs: [{ label: pipelineId, path: paths.pipeline(pipelineId) }, { label: runId }],
    view: {
      ...view,
      runPath: paths.run,
      destinationPath: (destination: string, path: string | null) =>
        withPath(paths.destination(pipelineId, destination), path),
      openPath: (destination: string, path: string) => withPath(paths.open(pipelineId, destination), path),
      path: paths.run(runId),
      recordPath: `runs/${encodeURIComponent(runId)}`,
      mayCancel: !view.isOver && may(visitor, 'cancel', pipelineId),
      mayRetry: view.retry !== null && may(visitor, 'retry', pipelineId),
      mayRerun: record.rerunnable && may(visitor, 'rerun', pipelineId),
    },
    ...(view.isOver && record.failed_deliveries.every(({ status }) => status !== 'retrying')
      ? {}
      : { follows: { pipeline: pipelineId, run: runId } }),
    isMoving: !view.isOver,
  });
}

function withPath(address: string, path: string | null): string {
  return path === null ? address : `${address}?${new URLSearchParams({ path }).toString()}`;
}

export const cancelAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/runs/{run_id}/cancel',
  audit: 'run.cancel',
  handle: (parts) =>
    action<RunParams>(
      parts,
      async (visit) => {
        const { runId } = visit.req.params;
        const pipelineId = await permitRun(visit, 'cancel');
        await cancelFor({ pipelineId, runId }, parts);
        goTo(visit, withFlash(paths.run(runId), 'cancelled'));
      },
      showRun,
    ),
};

export const retryAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/runs/{run_id}/retry',
  audit: 'run.retry',
  handle: (parts) =>
    action<RunParams>(
      parts,
      async (visit) => {
        const { runId } = visit.req.params;
        const pipelineId = await permitRun(visit, 'retry');
        await retryFor({ pipelineId, runId }, parts);
        goTo(visit, withFlash(paths.run(runId), 'retry'));
      },
      showRun,
    ),
};

export const rerunAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/runs/{run_id}/rerun',
  audit: 'run.rerun',
  handle: (parts) =>
    action<RunParams>(
      parts,
      async (visit) => {
        const { runId } = visit.req.params;
        const pipelineId = await permitRun(visit, 'rerun');
        const { trace, fields } = requestContext(visit.req);
        const next = newRunId(pipelineId, parts.clock.now());
        const { record } = await parts.queue.rerun(runId, next, trace);
        fields['run_id'] = record.run_id;
        goTo(visit, withFlash(paths.run(record.run_id), 'rerun'));
      },
      showRun,
    ),
};

/** Returns the pipeline of the path's run. Throws `run_not_found` and as `permit`. */
async function permitRun(visit: Visit<RunParams>, deed: Deed): Promise<string> {
  const { req, res, visitor, access, parts } = visit;
  const { runId } = req.params;
  const record = await findRun(visitor.isAdmin ? null : visitor.token, runId, parts);
  permit(res, visitor, deed, record.pipeline_id, access);
  Object.assign(requestContext(req).fields, { run_id: runId, pipeline_id: record.pipeline_id });
  return record.pipeline_id;
}

const search = queryParameters(searchParameters);

/** Searches the retained runs of the visitor's pipelines. */
export const runsPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.runs()}`,
  handle: (parts) =>
    page(parts, async (visit) => {
      const { req, res, visitor, access } = visit;
      const query = search.read(withoutEmpty(req.url));
      for (const id of query.pipeline) permit(res, visitor, 'read', id, access);
      const seen = seenBy(visitor, access).map(({ pipeline_id: id }) => id);
      const { limit, before, status, since, q } = query;
      const asked = query.pipeline.length > 0 ? query.pipeline : seen;
      const found = await parts.queue.list(asked, { limit, before, status, since, text: q });
      const next = nextOfAll('', query, found.next);
      show(visit, {
        title: 'Runs',
        template: 'runs',
        crumbs: [{ label: 'Runs' }],
        view: {
          runs: runLines(found.runs, parts.clock.now()),
          runPath: paths.run,
          path: paths.runs(),
          next: next === null ? null : `${paths.runs()}?${next.split('?', 2)[1] ?? ''}`,
          first: before === null ? null : `${paths.runs()}?${firstOf(query)}`,
          statuses: runStatuses,
          pipelines: seen,
          asked: { q: q ?? '', status: status ?? '', pipeline: query.pipeline[0] ?? '' },
        },
        ...(before === null ? { follows: {} } : {}),
      });
    }),
};

/** Drops empty values: a form sends every field, even an empty one. */
function withoutEmpty(url: string): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const given = [...searchParams].filter(([name, value]) => value !== '' && name !== 'done');
  return `${pathname}?${new URLSearchParams(given).toString()}`;
}

function firstOf(query: ReturnType<typeof search.read>): string {
  return (nextOfAll('', query, 'x') ?? '').replace(/^.*\?/, '').replace(/&before=x$/, '');
}
