import { acts, type AuditRecord } from '../../../core/audit/record.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { auditQuery, nextOfAudit, readAudit } from '../../daemon/audit-route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { actionMark, dayOf, isAction, type Mark, momentOf, plural, tokenName } from '../record-text.ts';
import { show } from '../show.ts';
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
      const query = auditQuery.read(withoutEmpty(req.url));
      const { pipeline, act, actor, before, since, until } = query;
      const found = await readAudit(audit, query, pipeline.length > 0 ? pipeline : null);
      const next = nextOfAudit(query, found);
      show(visit, {
        title: 'Audit trail',
        template: 'audit',
        crumbs: [{ label: 'Daemon', path: paths.admin() }, { label: 'Audit trail' }],
        view: {
          records: found.records.map(rowOf),
          path: paths.audit(),
          next: next === null ? null : `${paths.audit()}?${next}`,
          isFirst: before === null,
          acts,
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

const marks: Readonly<Record<AuditRecord['result'], Mark>> = {
  done: { label: 'done', tone: 'success', symbol: '✓' },
  refused: { label: 'refused', tone: 'warning', symbol: '!' },
  failed: { label: 'failed', tone: 'failure', symbol: '✕' },
};

function rowOf(record: AuditRecord): object {
  const { seq, time, act, result, code, actor, address, pipeline_id, destination_id, run_id, detail } =
    record;
  const facts = Object.entries(detail)
    .filter(([, fact]) => fact !== null && fact !== 0)
    .map(([name, fact]) => factText(name, fact));
  return {
    seq,
    act,
    time: momentOf(time),
    result: marks[result],
    actor: tokenName(actor.id ?? actor.type),
    address,
    place: [pipeline_id, destination_id].filter((part) => part !== null).join('/'),
    run:
      run_id === null ? null : { short: run_id.slice(run_id.lastIndexOf('.') + 1), href: paths.run(run_id) },
    facts: [...(code === null ? [] : [code]), ...facts].join(', '),
  };
}

type Fact = AuditRecord['detail'][string];

function factText(name: string, fact: Fact): string {
  if (name === 'path') return fact === '.' ? 'at the root' : `at ${String(fact)}`;
  if (name === 'action' && isAction(fact)) return actionMark({ action: fact, error: null }).label;
  const [noun, verb] = name.split('_');
  if (noun === 'outputs' && verb !== undefined && typeof fact === 'number')
    return `${plural(fact, 'output')} ${verb}`;
  return `${name.replaceAll('_', ' ')} ${String(fact)}`;
}

/** Removes empty parameters. Browsers submit every form field, even the ones left empty. */
function withoutEmpty(url: string): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const given = [...searchParams].filter(([, value]) => value !== '');
  return `${pathname}?${new URLSearchParams(given).toString()}`;
}
