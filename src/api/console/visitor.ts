import type { Response } from 'express';
import type { Scope } from '../../core/config/schema/schema.ts';
import { permitPipeline } from '../runs/pipeline-access.ts';
import type { PipelineAccess, PipelineSummary } from '../runs/pipelines-route.ts';
import type { Visitor } from './session/sessions.ts';

/**
 * What somebody may want with a pipeline: the scope that it takes, and whether the admin token has it on
 * every pipeline, as in the API. Reading is more than the API gives it: whoever may cancel any run sees it.
 */
const deeds = {
  read: { scope: 'read', admin: true },
  upload: { scope: 'upload', admin: false },
  start: { scope: 'run', admin: false },
  plan: { scope: 'run', admin: false },
  retry: { scope: 'run', admin: true },
  rerun: { scope: 'run', admin: true },
  cancel: { scope: 'cancel', admin: true },
  releases: { scope: 'releases', admin: true },
  verify: { scope: 'run', admin: true },
} as const satisfies Record<string, { scope: Scope; admin: boolean }>;
export type Deed = keyof typeof deeds;

/**
 * The pipeline, if the visitor may do this with it. Throws `pipeline_not_found`, `forbidden` and
 * `insufficient_scope` as the API does.
 */
export function permit(
  res: Response,
  { token }: Visitor,
  deed: Deed,
  id: string,
  { pipelines, adminToken }: PipelineAccess,
): PipelineSummary {
  const { scope, admin } = deeds[deed];
  return permitPipeline(res, token, {
    ...{ adminToken: admin ? adminToken : null, id, scope },
    find: (wanted) => pipelines.find(({ pipeline_id }) => pipeline_id === wanted),
  });
}

/** Whether `permit` would let the visitor. Pure. */
export function may({ token, isAdmin }: Visitor, deed: Deed, id: string): boolean {
  const { scope, admin } = deeds[deed];
  return (isAdmin && admin) || (token.pipelines.has(id) && token.scopes.has(scope));
}

/** The pipelines that the visitor may read about, in the order of the configuration. Pure. */
export function seenBy(visitor: Visitor, { pipelines }: PipelineAccess): PipelineSummary[] {
  return pipelines.filter(({ pipeline_id }) => may(visitor, 'read', pipeline_id));
}
