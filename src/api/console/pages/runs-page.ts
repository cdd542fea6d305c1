import { asWaybillError, WaybillError } from '../../../core/lib/errors.ts';
import { runStatuses } from '../../../workers/queue/run-record.ts';
import { newRunId } from '../../../workers/queue/start-run.ts';
import { queryParameters } from '../../http/query-parameters.ts';
import { originOf, requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { nextOfAll, searchParameters } from '../../runs/list-runs.ts';
import { findRun } from '../../runs/run-route.ts';
import { filtersOf, periodsOf } from '../filters.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { dayOf, plural, statusLabel } from '../record-text.ts';
import { goTo, show } from '../show.ts';
import { sentencesOf } from '../views/error-view.ts';
import { runLines } from '../views/pipeline-view.ts';
import { action, type Form, isAllowed, page, permit, seenBy, type Visit } from '../visit.ts';

const search = queryParameters(searchParameters);

/**
 * Searches the retained runs of the visitor's pipelines. The filters are in the URL, so searches can be
 * bookmarked.
 */
export const runsPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.runs()}`,
  handle: (parts) => page(parts, (visit) => showRuns(visit, { url: visit.req.url })),
};

interface Shown {
  /** The path and query, including the filters. */
  url: string;
  flash?: string;
  /** The selected runs that could not be repeated. */
  refused?: readonly Refused[];
}

interface Refused {
  id: string;
  /** The reason and what to do. */
  text: string;
}

async function showRuns(visit: Visit<unknown>, { url, flash, refused = [] }: Shown): Promise<void> {
  const { res, visitor, access, parts } = visit;
  const filters = filtersOf(url);
  const query = search.read(`?${filters.toString()}`);
  for (const id of query.pipeline) permit(res, visitor, 'read', id, access);
  const seen = seenBy(visitor, access).map(({ pipeline_id: id }) => id);
  const { limit, before, status, since, until, q } = query;
  const asked = query.pipeline.length > 0 ? query.pipeline : seen;
  const found = await parts.queue.list(asked, { limit, before, status, since, notAfter: until, text: q });
  const next = nextOfAll('', query, found.next);
  const last = new Set((await parts.queue.overview(asked)).map(({ lastRun }) => lastRun?.run_id));
  const runs = runLines(found.runs, parts.clock.now()).map((line) => {
    const mayRerun = line.isFailedAndRerunnable && isAllowed(visitor, 'rerun', line.pipelineId);
    return { ...line, mayRerun, isLatestFailure: mayRerun && last.has(line.id) };
  });
  show(visit, {
    title: 'Runs',
    template: 'runs',
    nav: 'runs',
    crumbs: [{ label: 'Runs' }],
    ...(flash === undefined ? {} : { flash }),
    view: {
      runs,
      refused,
      runPath: paths.run,
      path: paths.runs(),
      filters: filters.toString(),
      hasMoreFilters: ['status', 'pipeline', 'since', 'until'].some((name) => filters.has(name)),
      count: countText(runs.length, found.next !== null, before !== null),
      failed: status === null ? runs.filter((run) => run.status.tone === 'failure').length : 0,
      failedPath: `${paths.runs()}?${failedOf(filters)}`,
      repeatable: runs.filter(({ mayRerun }) => mayRerun).length,
      latestFailures: runs.filter(({ isLatestFailure }) => isLatestFailure).length,
      next: next === null ? null : `${paths.runs()}?${next.split('?', 2)[1] ?? ''}`,
      first: before === null ? null : `${paths.runs()}?${firstOf(query)}`,
      statuses: runStatuses.map((value) => ({ value, label: statusLabel(value) })),
      pipelines: seen,
      periods: periodsOf(paths.runs(), filters, parts.clock.now()),
      asked: {
        q: q ?? '',
        status: status ?? '',
        pipeline: query.pipeline[0] ?? '',
        since: dayOf(since),
        until: dayOf(until),
      },
    },
    // The URL of a form action cannot be reloaded, so the page does not follow events.
    ...(before === null && visit.req.method === 'GET' ? { follows: {} } : {}),
  });
}

/** Adds the status to the filters. */
function failedOf(filters: URLSearchParams): string {
  return new URLSearchParams([...filters, ['status', 'failed']]).toString();
}

function countText(count: number, hasOlder: boolean, isLater: boolean): string {
  if (isLater) return plural(count, 'older run');
  return hasOlder ? `The newest ${plural(count, 'run')}` : plural(count, 'run');
}

function firstOf(query: ReturnType<typeof search.read>): string {
  return (nextOfAll('', query, 'x') ?? '').replace(/^.*\?/, '').replace(/&before=x$/, '');
}

/**
 * Repeats the selected runs, or the last run of every pipeline whose last run failed, then returns to the
 * same search. Each run is checked as if it were repeated on its own. Runs that cannot be repeated do not
 * stop the others; the page lists them with the reasons.
 */
export const rerunManyAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `/${paths.runs()}`,
  audit: 'run.rerun',
  handle: (parts) =>
    action(
      parts,
      async (visit, form) => {
        const ids = chosenOf(form);
        requestContext(visit.req).reruns = [];
        const refused: Refused[] = [];
        for (const id of ids) {
          const refusal = await rerunOne(visit, id);
          if (refusal !== null) refused.push(refusal);
        }
        const filters = filtersOf(`?${form.get('filters') ?? ''}`).toString();
        const url = filters === '' ? paths.runs() : `${paths.runs()}?${filters}`;
        if (refused.length === 0) goTo(visit, withFlash(url, 'reruns'));
        else
          await showRuns(visit, {
            ...{ url, refused },
            flash: `${ids.length - refused.length} of ${plural(ids.length, 'run')} repeated.`,
          });
      },
      (visit) => showRuns(visit, { url: paths.runs() }),
    ),
};

/** Returns the ids of the runs to repeat. Throws `invalid_request` if the form contains none. */
function chosenOf(form: Form): string[] {
  const ids = form.getAll(form.get('which') === 'all' ? 'listed' : 'run');
  // The page lists the newest run first, but runs are repeated in the order in which they were accepted.
  if (ids.length > 0) return [...new Set(ids)].reverse();
  throw new WaybillError('invalid_request', 'no run is selected', { hint: 'select the runs to repeat' });
}

/** Repeats a run. Returns null on success, or the reason if it cannot be repeated. Rethrows server errors. */
async function rerunOne(
  { req, res, visitor, access, parts }: Visit<unknown>,
  id: string,
): Promise<Refused | null> {
  try {
    const record = await findRun(visitor.isAdmin ? null : visitor.token, id, parts);
    permit(res, visitor, 'rerun', record.pipeline_id, access);
    const next = newRunId(record.pipeline_id, parts.clock.now());
    const repeated = await parts.queue.rerun(id, next, originOf(req));
    requestContext(req).reruns?.push({
      pipelineId: record.pipeline_id,
      runId: repeated.record.run_id,
      rerunOf: id,
    });
    return null;
  } catch (thrown) {
    const { code, message, hint = null } = asWaybillError(thrown);
    if (code === 'internal_error' || code === 'queue_unavailable') throw thrown;
    requestContext(req).reruns?.push({ code });
    return { id, text: sentencesOf([message, ...(hint === null ? [] : [hint])].join('; ')).join(' ') };
  }
}
