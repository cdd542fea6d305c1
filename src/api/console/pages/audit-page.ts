import { acts } from '../../../core/audit/record.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { auditQuery, nextOfAudit, readAudit } from '../../daemon/audit-route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { filtersOf, periodsOf } from '../filters.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { dayOf, plural } from '../record-text.ts';
import { show } from '../show.ts';
import { actNames, type AuditContext, auditDays } from '../views/audit-view.ts';
import { runName, starterText } from '../views/run-words.ts';
import { page, requireAdmin, seenBy } from '../visit.ts';

/** Shows this host's audit trail to admins. */
export const auditPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.audit()}`,
  handle: (parts) =>
    page(parts, async (visit) => {
      const { req, visitor, access } = visit;
      requireAdmin(visitor, access);
      const { audit } = parts;
      if (audit == null)
        throw new WaybillError('not_found', 'this daemon keeps no audit trail', {
          hint: 'set `audit: {}` in its configuration, and restart it',
        });
      const filters = filtersOf(req.url);
      const query = auditQuery.read(`?${filters.toString()}`);
      const { pipeline, act, actor, before, since, until } = query;
      const found = await readAudit(audit, query, pipeline.length > 0 ? pipeline : null);
      const next = nextOfAudit(query, found);
      const pipelines = seenBy(visitor, access).map(({ pipeline_id: id }) => id);
      const periods = periodsOf(paths.audit(), filters, parts.clock.now());
      const isPeriod = periods.some(({ isCurrent }) => isCurrent);
      show(visit, {
        title: 'Audit trail',
        template: 'audit',
        nav: 'daemon',
        crumbs: [{ label: 'Daemon', path: paths.admin() }, { label: 'Audit trail' }],
        view: {
          days: auditDays(found.records, {
            pauses: await parts.queue.pauses(),
            runs: await runsOf(parts, pipelines),
          }),
          count: countText(found.records.length, next !== null, before !== null),
          filters: filtersText(query),
          path: paths.audit(),
          periods,
          hasMoreFilters: act !== null || pipeline.length > 0 || (!isPeriod && (since ?? until) !== null),
          next: next === null ? null : `${paths.audit()}?${next}`,
          isFirst: before === null,
          acts: acts
            .map((id) => ({ id, name: actNames[id] }))
            .sort((a, b) => a.name.localeCompare(b.name, 'en')),
          pipelines,
          asked: {
            act: act ?? '',
            actor: actor ?? '',
            pipeline: pipeline[0] ?? '',
            since: dayOf(since),
            until: dayOf(until),
          },
        },
      });
    }),
};

/** The number of newest runs in which the run of a record is looked up. */
const searchedRuns = 500;

/** Returns the names of the newest runs and what started them, by the id of the run. */
async function runsOf(
  { queue }: Pick<ConsoleParts, 'queue'>,
  pipelines: readonly string[],
): Promise<AuditContext['runs']> {
  const { runs } = await queue.list(pipelines, { limit: searchedRuns });
  return new Map(runs.map((run) => [run.run_id, { name: runName(run), starter: starterText(run) }]));
}

function countText(count: number, hasOlder: boolean, isLater: boolean): string {
  if (isLater) return plural(count, 'older record');
  return `${hasOlder ? 'The newest ' : ''}${plural(count, 'record')}`;
}

/** Names the filters that are set, such as `token or user "none"`. Empty without filters. */
function filtersText({ act, actor, pipeline, since, until }: ReturnType<typeof auditQuery.read>): string {
  const given: [string, string | null | undefined][] = [
    ['token or user', actor],
    ['action', act === null ? null : actNames[act]],
    ['pipeline', pipeline[0]],
    ['from', dayOf(since)],
    ['to', dayOf(until)],
  ];
  return given
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => `${name} “${value ?? ''}”`)
    .join(', ');
}
