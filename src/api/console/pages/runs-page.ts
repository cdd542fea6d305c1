import { queryParameters } from '../../http/query-parameters.ts';
import type { PageRoute } from '../../pages/page-route.ts';
import { nextOfAll, searchParameters } from '../../runs/run-pages.ts';
import { runStatuses } from '../../../workers/queue/run-record.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import { runLines } from '../views/run-line-view.ts';
import { page } from '../visit.ts';
import { permit, seenBy } from '../visitor.ts';

const search = queryParameters(searchParameters);

/** Search over the retained runs of the visitor's pipelines. */
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

/** A form sends every field, and an empty one asks for nothing. */
function withoutEmpty(url: string): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const given = [...searchParams].filter(([name, value]) => value !== '' && name !== 'done');
  return `${pathname}?${new URLSearchParams(given).toString()}`;
}

function firstOf(query: ReturnType<typeof search.read>): string {
  return (nextOfAll('', query, 'x') ?? '').replace(/^.*\?/, '').replace(/&before=x$/, '');
}
