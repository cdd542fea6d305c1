import type { ClaimAbove } from '../../catalog/managed-paths.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Plan, ReasonCode } from '../plan.ts';

/*
 * Takes the catalogs of parent bundle paths into account: they may own files that look unmanaged here.
 */

const unmanagedReasons = new Set<ReasonCode>(['content_unmanaged', 'path_unrecorded']);

/**
 * Whether the plan treats files at its bundle path as unowned: it would delete them, or reports them as
 * unmanaged. A catalog of a parent path must then be checked. Pure.
 */
export function dependsOnClaims({ clears, action, reason }: Plan): boolean {
  return clears || (action === 'fail_unmanaged' && unmanagedReasons.has(reason.code));
}

/**
 * Adjusts the plan to a claim of a parent catalog: a refusal then names the owner of the files. Throws
 * `nested_managed_path` if the plan would delete them. Pure.
 */
export function respectClaim(plan: Plan, claim: ClaimAbove | null): Plan {
  if (claim === null) return plan;
  const { destinationPath } = plan;
  const catalog =
    claim.catalogPath === '.'
      ? 'the catalog at the destination root'
      : `the catalog at "${claim.catalogPath}"`;
  if (plan.clears)
    throw new WaybillError(
      'nested_managed_path',
      `"${destinationPath}": a forced replacement would delete ${whatOf(claim, catalog)}`,
      {
        hint:
          claim.files === null
            ? 'repair that state first: restore it from a backup, or publish there once with --force'
            : 'publish to another path, or have its owner publish without those files first',
      },
    );
  if (claim.files === null) return plan;
  return {
    ...plan,
    reason: {
      code: 'content_of_catalog_above',
      message: `the content there is not free: ${whatOf(claim, catalog)}`,
    },
  };
}

function whatOf({ files, owner }: ClaimAbove, catalog: string): string {
  if (files === null) return `what ${catalog} may record, which cannot be understood`;
  const { first, others } = files;
  const more = others === 0 ? '' : ` and ${others} more`;
  const whose = owner === null ? '' : ` for ${owner.pipelineId}/${owner.destinationId}`;
  return `"${first}"${more}, which ${catalog} records${whose}`;
}
