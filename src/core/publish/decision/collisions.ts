import type { ClaimAbove } from '../../catalog/managed-paths.ts';
import { WaybillError } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { sameOwner } from '../../storage/identity.ts';
import type { EntryType } from '../../storage/storage.ts';
import type { DecisionInput, Plan, Reason, ReasonCode } from '../plan.ts';
import { byPath, type KnownOutputs, omittedPaths } from './records.ts';

/*
 * Finds conflicts between planned paths and what already exists at the destination.
 */

/** Returns the first conflict between a planned path and existing content, or null if there is none. */
export function findCollision(input: DecisionInput, known: KnownOutputs): Reason | null {
  return (
    findNestedBundle(input) ??
    findOtherOwner(input, known) ??
    findUnrecorded(input) ??
    findBlockedPath(input, known) ??
    findObstruction(input)
  );
}

/** Finds a planned path that is inside another managed bundle path. */
export function findNestedBundle({ observed, planned }: DecisionInput): Reason | null {
  const nested = new Set(observed.nested);
  if (nested.size === 0) return null;
  for (const { path } of planned)
    for (const place of [...ancestorsOf(path), path])
      if (nested.has(place))
        return {
          code: 'path_in_nested_bundle',
          message: `the planned path "${path}" lies in "${place}", which is a managed bundle path of its own`,
        };
  return null;
}

function findOtherOwner({ planned, owner }: DecisionInput, { holders }: KnownOutputs): Reason | null {
  for (const { path } of planned) {
    const holder = holders.get(path);
    if (holder !== undefined && holder !== null && !sameOwner(holder, owner))
      return {
        code: 'path_of_other_owner',
        message: `the planned path "${path}" belongs to ${holder.pipelineId}/${holder.destinationId}`,
      };
  }
  return null;
}

/**
 * Finds files at planned paths that the state does not list. With a legacy state, the whole bundle path
 * counts as managed, so outputs may replace any file there.
 */
function findUnrecorded({ observed: { state, unrecorded } }: DecisionInput): Reason | null {
  const [first, ...others] = unrecorded;
  if (state.kind !== 'valid' || first === undefined) return null;
  return {
    code: 'path_unrecorded',
    message:
      others.length === 0
        ? `the planned path "${first}" exists and is not recorded`
        : `the planned path "${first}" and ${others.length} more exist and are not recorded`,
  };
}

/**
 * Finds a planned path below a file that stays, or a file that stays below a planned path. Recorded paths
 * never block each other, so there is nothing to check if every planned path is recorded.
 */
function findBlockedPath(input: DecisionInput, known: KnownOutputs): Reason | null {
  if (areAllRecorded(input)) return null;
  const planned = new Set<string>(input.planned.map(({ path }) => path));
  const omitted = new Set<string>(omittedPaths(input, known));
  const remaining = new Set<string>(
    [...known.holders.keys()].filter((path) => !planned.has(path) && !omitted.has(path)),
  );
  const below = findBelow(planned, remaining);
  if (below !== null) return blocked(`the planned path "${below.path}" lies below "${below.file}", which is`);
  const above = findBelow(remaining, planned);
  if (above !== null)
    return blocked(`the planned path "${above.file}" is a directory of "${above.path}", which is`);
  return null;
}

function areAllRecorded({ observed: { state }, planned }: DecisionInput): boolean {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const recorded = byPath(state.catalog.outputs);
  return planned.every(({ path }) => recorded.has(path));
}

/** Finds an existing entry that is not in the state and is in the way of a planned file or its directory. */
function findObstruction({ observed: { obstacles }, planned }: DecisionInput): Reason | null {
  if (obstacles.size === 0) return null;
  for (const { path } of planned)
    for (const place of [...ancestorsOf(path), path]) {
      const type = obstacles.get(place);
      if (type !== undefined) return { code: 'path_obstructed', message: obstruction(path, place, type) };
    }
  return null;
}

const typeNames: Record<EntryType, string> = {
  file: 'a file',
  link: 'a symbolic link',
  directory: 'a directory',
  other: 'a special file',
};

function obstruction(path: string, place: string, type: EntryType): string {
  return place === path
    ? `at the planned path "${path}" there is ${typeNames[type]} with content that is not recorded`
    : `the planned path "${path}" needs the directory "${place}", where there is ${typeNames[type]} that is not recorded`;
}

function blocked(start: string): Reason {
  return { code: 'path_blocked', message: `${start} a published file that stays` };
}

/** Returns the first of `paths` that lies below one of `files`. */
function findBelow(
  paths: ReadonlySet<string>,
  files: ReadonlySet<string>,
): { path: string; file: string } | null {
  for (const path of paths) for (const file of ancestorsOf(path)) if (files.has(file)) return { path, file };
  return null;
}

/*
 * Takes the catalogs of parent directories into account, which may own files that look unmanaged from here.
 */

const unmanagedReasons = new Set<ReasonCode>(['content_unmanaged', 'path_unrecorded']);

/**
 * Reports whether the plan assumes that files at its bundle path have no owner: it deletes them, or refuses
 * to publish because they look unmanaged. In that case, check the catalogs of the parent directories.
 */
export function dependsOnClaims({ clears, action, reason }: Plan): boolean {
  return clears || (action === 'fail_unmanaged' && unmanagedReasons.has(reason.code));
}

/**
 * Adjusts the plan if a parent directory's catalog claims the files, so that the refusal says who owns them.
 * Throws `nested_managed_path` if the plan would delete them.
 */
export function applyClaim(plan: Plan, claim: ClaimAbove | null): Plan {
  if (claim === null) return plan;
  const { destinationPath } = plan;
  const catalog =
    claim.catalogPath === '.'
      ? 'the catalog at the destination root'
      : `the catalog at "${claim.catalogPath}"`;
  if (plan.clears)
    throw new WaybillError(
      'nested_managed_path',
      `"${destinationPath}": a forced replacement would delete ${claimedFiles(claim, catalog)}`,
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
      message: `the content there is not free: ${claimedFiles(claim, catalog)}`,
    },
  };
}

function claimedFiles({ files, owner }: ClaimAbove, catalog: string): string {
  if (files === null) return `what ${catalog} may record, which cannot be understood`;
  const { first, others } = files;
  const more = others === 0 ? '' : ` and ${others} more`;
  const owners = owner === null ? '' : ` for ${owner.pipelineId}/${owner.destinationId}`;
  return `"${first}"${more}, which ${catalog} records${owners}`;
}
