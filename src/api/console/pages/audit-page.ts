import { acts } from '../../../core/audit/record.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { auditQuery, nextOfAudit, readAudit } from '../../daemon/audit-route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { filtersOf, periodsOf } from '../filters.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { dayOf, plural } from '../record-text.ts';
import { show } from '../show.ts';
import { actNames, auditDays } from '../views/audit-view.ts';
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
      show(visit, {
        title: 'Audit trail',
        template: 'audit',
        nav: 'daemon',
        crumbs: [{ label: 'Daemon', path: paths.admin() }, { label: 'Audit trail' }],
        view: {
          days: auditDays(found.records, await parts.queue.pauses()),
          count: countText(found.records.length, next !== null, before !== null),
          filters: filtersText(query),
          path: paths.audit(),
          periods: periodsOf(paths.audit(), filters, parts.clock.now()),
          next: next === null ? null : `${paths.audit()}?${next}`,
          isFirst: before === null,
          acts: acts
            .map((id) => ({ id, name: actNames[id] }))
            .sort((a, b) => a.name.localeCompare(b.name, 'en')),
          pipelines: seenBy(visitor, access).map(({ pipeline_id: id }) => id),
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
