import { sameOwner } from '../../identity.ts';
import { ancestorsOf } from '../../paths.ts';
import type { EntryType } from '../../storage/storage.ts';
import type { DecisionInput, Reason } from '../plan.ts';
import { omittedPaths, type Known } from './known-records.ts';
import { byPath } from './recorded-as.ts';

/** Why the planned paths cannot be written beside what is there; null if they can. Pure. */
export function findCollision(input: DecisionInput, known: Known): Reason | null {
  return (
    findNestedBundle(input) ??
    findOtherOwner(input, known) ??
    findUnrecorded(input) ??
    findBlockedPath(input, known) ??
    findObstruction(input)
  );
}

/** A planned path that lies in a managed bundle path of its own. Pure. */
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

function findOtherOwner({ planned, owner }: DecisionInput, { holders }: Known): Reason | null {
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
 * A superseded state marks the whole bundle path as managed, so planned outputs may replace what is there.
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
 * A file cannot lie below another file: a planned path and an output that stays must not require that. No
 * record blocks another one of the same state, so that only what is new has to be looked at.
 */
function findBlockedPath(input: DecisionInput, known: Known): Reason | null {
  if (areAllRecorded(input)) return null;
  const planned = new Set<string>(input.planned.map(({ path }) => path));
  const goes = new Set<string>(omittedPaths(input, known));
  const stays = new Set<string>(
    [...known.holders.keys()].filter((path) => !planned.has(path) && !goes.has(path)),
  );
  const below = findBelow(planned, stays);
  if (below !== null) return blocked(`the planned path "${below.path}" lies below "${below.file}", which is`);
  const above = findBelow(stays, planned);
  if (above !== null)
    return blocked(`the planned path "${above.file}" is a directory of "${above.path}", which is`);
  return null;
}

function areAllRecorded({ observed: { state }, planned }: DecisionInput): boolean {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const recorded = byPath(state.catalog.outputs);
  return planned.every(({ path }) => recorded.has(path));
}

/** Something that no record names is in the way of a directory, or of a file. */
function findObstruction({ observed: { obstacles }, planned }: DecisionInput): Reason | null {
  if (obstacles.size === 0) return null;
  for (const { path } of planned)
    for (const place of [...ancestorsOf(path), path]) {
      const type = obstacles.get(place);
      if (type !== undefined) return { code: 'path_obstructed', message: obstruction(path, place, type) };
    }
  return null;
}

const called: Record<EntryType, string> = {
  file: 'a file',
  link: 'a symbolic link',
  directory: 'a directory',
  other: 'a special file',
};

function obstruction(path: string, place: string, type: EntryType): string {
  return place === path
    ? `at the planned path "${path}" there is ${called[type]} with content that is not recorded`
    : `the planned path "${path}" needs the directory "${place}", where there is ${called[type]} that is not recorded`;
}

function blocked(start: string): Reason {
  return { code: 'path_blocked', message: `${start} a published file that stays` };
}

/** The first of `paths` that lies below one of `files`. */
function findBelow(
  paths: ReadonlySet<string>,
  files: ReadonlySet<string>,
): { path: string; file: string } | null {
  for (const path of paths) for (const file of ancestorsOf(path)) if (files.has(file)) return { path, file };
  return null;
}
