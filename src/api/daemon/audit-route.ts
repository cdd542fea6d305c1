import type { RequestHandler } from 'express';
import { type AuditPage, readPage } from '../../core/audit/read-trail.ts';
import { acts } from '../../core/audit/record.ts';
import { auditRecordSchema } from '../../core/audit/record-schema.ts';
import type { Current } from '../../core/lib/current.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import {
  choice,
  freeText,
  names,
  type Parameter,
  periodBound,
  wholeNumber,
} from '../../core/lib/parameters.ts';
import { requireScope } from '../http/auth.ts';
import type { HttpPorts } from '../http/http-app.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { AuditTarget } from '../http/recorded-acts.ts';
import { jsonContent, type Route } from '../http/route.ts';
import { authenticateCaller, pipelinesOf, type RunAccess, withAdmin } from '../pipelines/pipeline-access.ts';

/* Lists this host's audit trail. */

export interface AuditPorts extends HttpPorts {
  configured: Current<Pick<RunAccess, 'tokens' | 'publishers' | 'adminToken' | 'pipelineIds'>>;
}

const beforeParameter: Parameter<number | null> = {
  description: 'Only records with a smaller `seq`.',
  schema: { type: 'integer', minimum: 1, maximum: 999_999_999_999_999 },
  example: 4711,
  absent: null,
  expected: 'the seq of a record',
  parse: (text) => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined),
};

/** The query parameters that all lists of records have in common. */
export const auditQuery = queryParameters({
  limit: wholeNumber(1, 500, 50, { description: 'Records on one page.' }),
  before: beforeParameter,
  since: periodBound('since', {
    description: 'Only records of this time or later, or from this day on (UTC).',
    example: '2026-11-20T00:00:00Z',
  }),
  until: periodBound('until', {
    description: 'Only records of this time or earlier, or up to this day (UTC).',
    example: '2026-11-20',
  }),
  pipeline: names(100, 255, {
    description: 'Only records about these pipelines, comma-separated.',
    example: 'maps',
  }),
  act: choice(acts, null, { description: 'Only records of this act.' }),
  actor: freeText(200, { description: 'Only records of the actor with this id.', example: 'ci' }),
});
type AuditQuery = ReturnType<typeof auditQuery.read>;

/**
 * Reads one page of records. If `pipelines` is null, includes the records of all pipelines, and records that
 * are not about a pipeline.
 */
export async function readAudit(
  { directory }: AuditTarget,
  { limit, before, since, until, act, actor }: AuditQuery,
  pipelines: readonly string[] | null,
): Promise<AuditPage> {
  return readPage(directory, { limit, before, since, until, act, actor, pipelines });
}

/** Returns the query for the next page, or null if this is the last one. */
export function nextOfAudit(query: AuditQuery, { next }: AuditPage): string | null {
  if (next === null) return null;
  const { limit, since, until, pipeline, act, actor } = query;
  return new URLSearchParams({
    limit: String(limit),
    ...(since !== null && { since: since.toISOString() }),
    ...(until !== null && { until: until.toISOString() }),
    ...(pipeline.length > 0 && { pipeline: pipeline.join(',') }),
    ...(act !== null && { act }),
    ...(actor !== null && { actor }),
    before: String(next),
  }).toString();
}

export const listAuditRoute: Route<AuditPorts> = {
  method: 'get',
  path: '/v1/audit',
  operationId: 'listAudit',
  tag: 'daemon',
  summary: 'List the audit trail',
  description:
    'The records of the host that responds, newest first. Needs a token with the scope `audit`, which sees the records about its pipelines, or the token of `server.admin_token_env`, which sees all. At most 20,000 records are read for one page: a page with filters may therefore be shorter than its limit, even empty, and have a `next`. Without the setting `audit` the response is 404 `not_found`.',
  access: 'token',
  scopes: ['audit', 'admin'],
  parameters: auditQuery.parameters,
  responses: {
    200: {
      description: 'One page.',
      content: jsonContent({
        type: 'object',
        additionalProperties: false,
        required: ['records', 'next'],
        properties: {
          records: { type: 'array', items: auditRecordSchema },
          next: { description: 'Path and query of the next page.', type: ['string', 'null'] },
        },
      }),
    },
  },
  problems: [
    'not_found',
    'pipeline_not_found',
    'forbidden',
    'token_expired',
    'insufficient_scope',
    'invalid_request',
  ],
  handle: (ports) => list(ports),
};

function list(ports: AuditPorts): RequestHandler {
  return async (req, res) => {
    const access = ports.configured.get();
    const token = authenticateCaller(req, res, withAdmin(access), ports.clock);
    requireScope(token, 'audit', res);
    const query = auditQuery.read(req.url);
    const { audit } = ports;
    if (audit == null)
      throw new WaybillError('not_found', 'this daemon keeps no audit trail', {
        hint: 'set `audit: {}` in its configuration, and restart it',
      });
    const { pipeline } = query;
    const isAdmin = token === access.adminToken;
    const named = pipeline.length > 0 ? pipeline : null;
    const page = await readAudit(audit, query, isAdmin ? named : pipelinesOf(token, pipeline, ports));
    const next = nextOfAudit(query, page);
    res.json({
      records: page.records,
      next: next === null ? null : `${ports.http.basePath}v1/audit?${next}`,
    });
  };
}
