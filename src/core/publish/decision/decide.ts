import { WaybillError } from '../../lib/errors.ts';
import type { Key } from '../../storage/key.ts';
import type { Action, DecisionInput, Plan, Reason } from '../plan.ts';
import { findCollision, findNestedBundle } from './collisions.ts';
import { fatesOf, forcedFates } from './fates.ts';
import { knownRecords, nothingKnown, omittedPaths, type Known, type ManagedState } from './known-records.ts';
import { byPath, isRecordedAs } from './recorded-as.ts';

/**
 * The decision table of the specification: the action for these outputs at the observed destination, and the
 * reason. Throws `empty_plan` if a replacement has no outputs, and `nested_managed_path` if force would
 * delete another managed bundle path. These are refusals and not decisions. Pure.
 */
export function decide(input: DecisionInput): Plan {
  refuseEmptyReplacement(input);
  const { isSettled, state } = input.observed;
  if (isSettled) return skip(input);
  switch (state.kind) {
    case 'absent':
      return decideWithoutState(input);
    case 'invalid':
      return refuseOrForce(input, 'fail_conflict', {
        code: 'state_invalid',
        message: `the state is invalid: ${state.reason}`,
      });
    case 'future':
      return refuseOrForce(input, 'fail_conflict', {
        code: 'state_unsupported',
        message: `the state has schema version ${state.version}, which is newer than this waybill understands`,
      });
    case 'legacy':
    case 'valid':
      return decideByRecords(input, state);
  }
}

function refuseEmptyReplacement({ workflow, planned, destinationPath }: DecisionInput): void {
  if (workflow !== 'replacement' || planned.length > 0) return;
  throw new WaybillError(
    'empty_plan',
    `${destinationPath}: the plan has no outputs, and a replacement by nothing would remove everything`,
    { hint: 'check the source; to empty a destination on purpose, use `waybill prune`' },
  );
}

function decideWithoutState(input: DecisionInput): Plan {
  if (input.observed.contentPresent)
    return refuseOrForce(input, 'fail_unmanaged', {
      code: 'content_unmanaged',
      message: 'the destination holds content and no state: it is not managed by waybill',
    });
  const nested = findNestedBundle(input);
  if (nested !== null) return refuseOrForce(input, 'fail_unmanaged', nested);
  return proceed(input, 'publish_new', {
    code: 'destination_empty',
    message: 'there is no state and no content',
  });
}

function decideByRecords(input: DecisionInput, state: ManagedState): Plan {
  const known = knownRecords(state, input);
  const collision = findCollision(input, known);
  if (collision !== null) return refuseOrForce(input, 'fail_unmanaged', collision);
  const removes = omittedPaths(input, known);
  const reason = reasonToPublish(input, state, known, removes);
  if (reason === null) return skip(input);
  const action = input.workflow === 'replacement' ? 'replace_catalog' : 'upsert_additive';
  return proceed(input, action, reason, known, removes);
}

function reasonToPublish(
  { planned }: DecisionInput,
  state: ManagedState,
  known: Known,
  removes: readonly Key[],
): Reason | null {
  if (state.kind === 'legacy')
    return {
      code: 'legacy_state',
      message: `the state has the superseded schema version ${state.version} and is rewritten as version 4`,
    };
  if (state.catalog.pending !== null)
    return {
      code: 'attempt_interrupted',
      message: `attempt ${state.catalog.pending.attemptId} did not finish; what it began is done over`,
    };
  const recorded = byPath(known.records);
  const differing = planned.filter((output) => !isRecordedAs(recorded.get(output.path), output));
  if (differing.length > 0)
    return {
      code: 'outputs_differ',
      message: `${differing.length} of ${planned.length} planned outputs differ from their records`,
    };
  if (removes.length === 0) return null;
  return {
    code: 'outputs_omitted',
    message:
      removes.length === 1
        ? '1 recorded output is no longer planned'
        : `${removes.length} recorded outputs are no longer planned`,
  };
}

function skip(input: DecisionInput): Plan {
  return unchanged(input, 'skip_same', {
    code: 'all_recorded',
    message: 'every planned output is recorded as it is planned',
  });
}

function refuseOrForce(
  input: DecisionInput,
  action: 'fail_unmanaged' | 'fail_conflict',
  reason: Reason,
): Plan {
  if (!input.force) return unchanged(input, action, reason);
  const [nested] = input.observed.nested;
  if (nested !== undefined)
    throw new WaybillError(
      'nested_managed_path',
      `${input.destinationPath}: a forced replacement would delete "${nested}", which is a managed bundle path of its own`,
      { hint: 'publish to another path, or remove that bundle first' },
    );
  return forced(input, reason);
}

function forced(input: DecisionInput, reason: Reason): Plan {
  const planned = new Set<string>(input.planned.map(({ path }) => path));
  const removes = input.observed.contents.filter((key) => !planned.has(key));
  const { changes, ...fates } = forcedFates(input);
  for (const path of removes) changes.push({ path, fate: 'remove', why: 'cleared' });
  return { ...unchanged(input, 'force_replace', reason), ...fates, removes, clears: true, changes };
}

function proceed(
  input: DecisionInput,
  action: Action,
  reason: Reason,
  known: Known = nothingKnown,
  removes: Key[] = [],
): Plan {
  const { changes, ...fates } = fatesOf(input, known);
  const unfinished = new Set<string>(known.unfinished);
  for (const path of removes)
    changes.push({ path, fate: 'remove', why: unfinished.has(path) ? 'interrupted' : 'omitted' });
  const touched = new Set<string>(changes.map(({ path }) => path));
  const untouched = known.records.filter(({ path }) => !touched.has(path));
  const unkept = unkeptAmong(input, known, [...fates.writes.map(({ path }) => path), ...removes]);
  return { ...unchanged(input, action, reason), ...fates, removes, untouched, unkept, changes };
}

/** The written or removed paths whose recorded files are too large to be kept for a restore. */
function unkeptAmong(
  { observed: { largestKeptBytes } }: DecisionInput,
  { records }: Known,
  paths: readonly string[],
): string[] {
  if (largestKeptBytes === null) return [];
  const changed = new Set(paths);
  const large = records.filter(({ path, size }) => size > largestKeptBytes && changed.has(path));
  return large.map(({ path }) => path);
}

function unchanged({ owner, bundle, destinationPath }: DecisionInput, action: Action, reason: Reason): Plan {
  return {
    owner,
    bundle,
    destinationPath,
    action,
    reason,
    writes: [],
    kept: [],
    removes: [],
    clears: false,
    unkept: [],
    untouched: [],
    changes: [],
  };
}
