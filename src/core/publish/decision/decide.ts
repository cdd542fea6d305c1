import { intentPaths, type OutputRecord } from '../../catalog/catalog.ts';
import { WaybillError } from '../../lib/errors.ts';
import { quotedName } from '../../lib/text.ts';
import type { Key } from '../../storage/key.ts';
import type { Action, DecisionInput, Plan, PlannedChange, PlannedOutput, Reason } from '../plan.ts';
import { findCollision, findNestedBundle } from './collisions.ts';
import {
  byPath,
  type KnownOutputs,
  knownRecords,
  type ManagedState,
  matchesRecord,
  noKnownOutputs,
  omittedPaths,
  sameGenerator,
  sameHeaders,
  sameSource,
} from './records.ts';

/**
 * Implements the specification's decision table: looks at what is at the destination and returns what to do
 * with these outputs, and why. Two cases are errors rather than decisions: `empty_plan` if a replacement has
 * no outputs, and `nested_managed_path` if force would delete another managed bundle path.
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
        message: `the catalog is invalid: ${state.reason}`,
      });
    case 'future':
      return refuseOrForce(input, 'fail_conflict', {
        code: 'state_unsupported',
        message: `the catalog has schema version ${state.version}, which is newer than this waybill supports`,
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
    { hint: 'check the source; to empty a destination on purpose, use waybill prune' },
  );
}

function decideWithoutState(input: DecisionInput): Plan {
  const { contentPresent, unmanagedFile } = input.observed;
  if (contentPresent) {
    const such = unmanagedFile === null ? '' : `, such as ${quotedName(unmanagedFile)}`;
    return refuseOrForce(input, 'fail_unmanaged', {
      code: 'content_unmanaged',
      message: `there are files that waybill did not write${such} (no .publisher.json)`,
    });
  }
  const nested = findNestedBundle(input);
  if (nested !== null) return refuseOrForce(input, 'fail_unmanaged', nested);
  return proceed(input, 'publish_new', {
    code: 'destination_empty',
    message: 'the destination is empty',
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
  known: KnownOutputs,
  removes: readonly Key[],
): Reason | null {
  if (state.kind === 'legacy')
    return {
      code: 'legacy_state',
      message: `the catalog has the old schema version ${state.version} and is rewritten as version 4`,
    };
  if (state.catalog.pending !== null)
    return {
      code: 'attempt_interrupted',
      message: `attempt ${state.catalog.pending.attemptId} did not finish; its changes are made again`,
    };
  const recorded = byPath(known.records);
  const differing = planned.filter((output) => !matchesRecord(recorded.get(output.path), output));
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
    message: 'everything is already published',
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
  known: KnownOutputs = noKnownOutputs,
  removes: Key[] = [],
): Plan {
  const { changes, ...fates } = fatesOf(input, known);
  const unfinished = new Set<string>(known.unfinished);
  for (const path of removes)
    changes.push({ path, fate: 'remove', why: unfinished.has(path) ? 'interrupted' : 'omitted' });
  const touched = new Set<string>(changes.map(({ path }) => path));
  const untouched = known.records.filter(({ path }) => !touched.has(path));
  const unkept = findNotBackedUp(input, known, [...fates.writes.map(({ path }) => path), ...removes]);
  return { ...unchanged(input, action, reason), ...fates, removes, untouched, unkept, changes };
}

/**
 * Returns the paths whose current files are too large to back up, and so cannot be restored after a failure.
 */
function findNotBackedUp(
  { observed: { maxBackupBytes } }: DecisionInput,
  { records }: KnownOutputs,
  paths: readonly string[],
): string[] {
  if (maxBackupBytes === null) return [];
  const changed = new Set(paths);
  const large = records.filter(({ path, size }) => size > maxBackupBytes && changed.has(path));
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

/** The planned outputs, sorted into those to write and those to keep. Both are in planned order. */
interface Fates {
  writes: PlannedOutput[];
  kept: PlannedOutput[];
  changes: PlannedChange[];
}

/**
 * Decides for each planned output whether to write it or keep the published file, and why. A file is kept if
 * it has the recorded size and its record has the same content (and the same headers, if the storage keeps
 * them). If the record is different in any other way, only the record is updated.
 */
function fatesOf(input: DecisionInput, known: KnownOutputs): Fates {
  const { state } = input.observed;
  const context: DecisionContext = {
    input,
    records: byPath(known.records),
    announced: intentPaths(state.kind === 'valid' ? state.catalog.pending : null),
  };
  return groupByFate(input.planned, (output) => fateOf(output, context));
}

/** Returns the changes made by a forced replacement, which writes every output no matter what is recorded. */
function forcedFates({ planned, observed }: DecisionInput): Fates {
  const present = new Set<string>(observed.contents);
  return groupByFate(planned, ({ path }) =>
    present.has(path) ? { fate: 'change', why: 'forced' } : { fate: 'add', why: 'not_recorded' },
  );
}

interface DecisionContext {
  input: DecisionInput;
  records: ReadonlyMap<string, OutputRecord>;
  /** Paths that an unfinished attempt may have touched. */
  announced: ReadonlySet<string>;
}

type OutputFate = Pick<PlannedChange, 'fate' | 'why'>;

function fateOf(
  output: PlannedOutput,
  { input: { observed }, records, announced }: DecisionContext,
): OutputFate {
  const record = records.get(output.path);
  if (announced.has(output.path))
    return { fate: record === undefined ? 'add' : 'change', why: 'interrupted' };
  if (record === undefined) return { fate: 'add', why: 'not_recorded' };
  if (observed.state.kind === 'legacy') return { fate: 'change', why: 'legacy_state' };
  if (record.digest !== output.digest || record.size !== output.size)
    return { fate: 'change', why: 'content_differs' };
  const isSameHeaders = sameHeaders(record.generated, output.generated);
  if (!isSameHeaders && observed.keepsHeaders) return { fate: 'change', why: 'headers_differ' };
  const damage = observed.damaged.get(output.path);
  if (damage !== undefined) return { fate: damage === 'missing' ? 'add' : 'change', why: damage };
  return recordFate(record, output, isSameHeaders);
}

/** Returns the verdict on an output whose file stays as it is: `keep`, or `refresh` if its record changes. */
function recordFate(record: OutputRecord, output: PlannedOutput, isSameHeaders: boolean): OutputFate {
  if (!isSameHeaders) return { fate: 'refresh', why: 'headers_differ' };
  if (record.kind !== output.kind) return { fate: 'refresh', why: 'kind_differs' };
  if (!sameGenerator(record.generated, output.generated))
    return { fate: 'refresh', why: 'generator_differs' };
  if (!sameSource(record.source, output.source)) return { fate: 'refresh', why: 'source_differs' };
  if (record.url !== output.url) return { fate: 'refresh', why: 'url_differs' };
  return { fate: 'keep', why: 'same' };
}

function groupByFate(planned: readonly PlannedOutput[], judge: (output: PlannedOutput) => OutputFate): Fates {
  const fates: Fates = { writes: [], kept: [], changes: [] };
  for (const output of planned) {
    const { fate, why } = judge(output);
    (fate === 'keep' || fate === 'refresh' ? fates.kept : fates.writes).push(output);
    fates.changes.push({ path: output.path, fate, why });
  }
  return fates;
}
