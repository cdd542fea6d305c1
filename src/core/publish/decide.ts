import { ancestorsOf, compareCodeUnits } from '../paths.ts';
import type {
  Catalog,
  CatalogState,
  GeneratedMetadata,
  LegacyRecord,
  OutputRecord,
} from '../catalog/catalog.ts';
import { sameOwner, type Owner, type SourceIdentity } from '../identity.ts';
import { WaybillError } from '../errors.ts';
import { listedKey, type Key } from '../storage/key.ts';
import type { Action, Observation, Plan, PlannedChange, PlannedOutput, Reason } from './plan.ts';

export interface DecisionInput {
  owner: Owner;
  workflow: 'additive' | 'replacement';
  force: boolean;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Sorted by path, each path once. */
  planned: readonly PlannedOutput[];
  observed: Observation;
}

/**
 * The decision table of the specification, as a function: what to do with these outputs at a destination that
 * looks like this, and why. Pure; throws `empty_plan` and `nested_managed_path`, which are no decisions but
 * refusals.
 */
export function decide(input: DecisionInput): Plan {
  const { observed, planned, workflow } = input;
  if (workflow === 'replacement' && planned.length === 0)
    throw new WaybillError(
      'empty_plan',
      `${input.destinationPath}: the plan has no outputs, and a replacement by nothing would remove everything`,
      {
        hint: 'check the source; to empty a destination on purpose, use `waybill prune`',
      },
    );
  if (observed.isSettled) return skip(input);
  const { state } = observed;
  switch (state.kind) {
    case 'absent':
      if (!observed.contentPresent) {
        const nested = nestedCollision(input);
        if (nested !== null) return refuseOrForce(input, 'fail_unmanaged', nested);
        return proceed(input, 'publish_new', reason('destination_empty', 'there is no state and no content'));
      }
      return refuseOrForce(
        input,
        'fail_unmanaged',
        reason(
          'content_unmanaged',
          'the destination holds content and no state: it is not managed by waybill',
        ),
      );
    case 'invalid':
      return refuseOrForce(
        input,
        'fail_conflict',
        reason('state_invalid', `the state is invalid: ${state.reason}`),
      );
    case 'future':
      return refuseOrForce(
        input,
        'fail_conflict',
        reason(
          'state_unsupported',
          `the state has schema version ${state.version}, which is newer than this waybill understands`,
        ),
      );
    case 'legacy':
    case 'valid': {
      const known = knownRecords(state, input);
      const collision = findCollision(input, known);
      if (collision !== null) return refuseOrForce(input, 'fail_unmanaged', collision);
      const removes = omitted(input, known);
      const why = reasonToPublish(input, state, known, removes);
      if (why === null) return skip(input);
      return proceed(
        input,
        workflow === 'replacement' ? 'replace_catalog' : 'upsert_additive',
        why,
        known,
        removes,
      );
    }
  }
}

/**
 * True where a valid state settles the matter alone, so that nothing else of the destination needs to be
 * looked at: the decision is `skip_same`. No path can be in another's way then, because a state whose records
 * are in each other's way is invalid. Pure.
 */
export function isSettledByState(
  input: Pick<DecisionInput, 'owner' | 'workflow' | 'planned'>,
  state: CatalogState,
): boolean {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const recorded = new Map<string, OutputRecord>(
    state.catalog.outputs.map((record) => [record.path, record]),
  );
  if (!input.planned.every((output) => isRecordedAs(recorded.get(output.path), output))) return false;
  if (input.workflow === 'additive') return true;
  const planned = new Set<string>(input.planned.map(({ path }) => path));
  return state.catalog.outputs.every(
    (record) => planned.has(record.path) || !sameOwner(record.owner, input.owner),
  );
}

/** The seven things that `skip_same` compares (the path, the seventh, is what the record was found by). */
function isRecordedAs(record: OutputRecord | undefined, output: PlannedOutput): boolean {
  return (
    record !== undefined &&
    sameOwner(record.owner, output.owner) &&
    sameSource(record.source, output.source) &&
    record.kind === output.kind &&
    record.digest === output.digest &&
    record.size === output.size &&
    sameGenerated(record.generated, output.generated) &&
    record.url === output.url
  );
}

function sameSource(a: SourceIdentity, b: SourceIdentity): boolean {
  return a.backend === b.backend && a.id === b.id && a.path === b.path;
}

function sameGenerated(a: GeneratedMetadata, b: GeneratedMetadata): boolean {
  return (
    a.contentType === b.contentType &&
    a.cacheControl === b.cacheControl &&
    a.generator?.name === b.generator?.name &&
    a.generator?.version === b.generator?.version &&
    a.generator?.inputs === b.generator?.inputs
  );
}

/** What the state knows: records, and what an interrupted attempt of this owner left to be removed. */
interface Known {
  records: OutputRecord[];
  /** By path, who holds it; includes what interrupted attempts announced. */
  holders: Map<string, Owner | null>;
  unfinished: Key[];
}

const nothingKnown: Known = { records: [], holders: new Map(), unfinished: [] };

function knownRecords(
  state: Extract<CatalogState, { kind: 'valid' | 'legacy' }>,
  input: DecisionInput,
): Known {
  if (state.kind === 'legacy') {
    const records = state.records.flatMap((record) => carriedOver(record, input));
    return { records, holders: new Map(records.map(({ path, owner }) => [path, owner])), unfinished: [] };
  }
  const { outputs, pending } = state.catalog;
  const holders = new Map<string, Owner | null>();
  const own = pending !== null && sameOwner(pending.owner, input.owner);
  for (const path of pending?.removes ?? []) holders.set(path, own ? input.owner : null);
  for (const record of [...(pending?.outputs ?? []), ...outputs]) holders.set(record.path, record.owner);
  return { records: outputs, holders, unfinished: own ? unfinishedRemoves(state.catalog) : [] };
}

/**
 * An interrupted attempt of a replacement, forced or not, had decided what goes; whoever of the same owner
 * comes next finishes it. A prune decides anew.
 */
function unfinishedRemoves({ pending }: Catalog): Key[] {
  return pending === null || pending.action === 'prune' ? [] : pending.removes;
}

/**
 * Only v3 told enough to make a record of; what it did not tell differs from any plan, so the output is
 * written anew.
 */
function carriedOver({ path, v3 }: LegacyRecord, { owner, destinationPath }: DecisionInput): OutputRecord[] {
  if (v3 === null || !sameOwner(v3.owner, owner)) return [];
  return [
    {
      path,
      owner,
      source: { backend: 'local', id: 'legacy', path: destinationPath },
      kind: 'file',
      digest: v3.digest,
      size: v3.size,
      updatedAt: v3.updatedAt,
      generated: { contentType: null, cacheControl: null, generator: null },
      url: null,
    },
  ];
}

function findCollision(input: DecisionInput, known: Known): Reason | null {
  const { observed, planned, owner } = input;
  const nested = nestedCollision(input);
  if (nested !== null) return nested;
  for (const { path } of planned) {
    const holder = known.holders.get(path);
    if (holder !== undefined && holder !== null && !sameOwner(holder, owner))
      return reason(
        'path_of_other_owner',
        `the planned path "${path}" belongs to ${holder.pipelineId}/${holder.destinationId}`,
      );
  }
  // A superseded state is a sentinel of the whole bundle path: what is planned may replace what is there.
  if (observed.state.kind === 'valid') {
    const [first] = observed.unrecorded;
    const others = observed.unrecorded.length - 1;
    if (first !== undefined)
      return reason(
        'path_unrecorded',
        others === 0
          ? `the planned path "${first}" exists and is not recorded`
          : `the planned path "${first}" and ${others} more exist and are not recorded`,
      );
  }
  return findBlockedPath(input, known);
}

/** A file cannot lie below another file: a planned path and an output that stays must not want that. */
function findBlockedPath(input: DecisionInput, known: Known): Reason | null {
  const planned = new Set<string>(input.planned.map(({ path }) => path));
  const goes = new Set<string>(omitted(input, known));
  const stays = new Set<string>(
    [...known.holders.keys()].filter((path) => !planned.has(path) && !goes.has(path)),
  );
  for (const path of planned)
    for (const ancestor of ancestorsOf(path))
      if (stays.has(ancestor))
        return reason(
          'path_blocked',
          `the planned path "${path}" lies below "${ancestor}", which is a published file that stays`,
        );
  for (const path of stays)
    for (const ancestor of ancestorsOf(path))
      if (planned.has(ancestor))
        return reason(
          'path_blocked',
          `the planned path "${ancestor}" is a directory of "${path}", which is a published file that stays`,
        );
  return null;
}

function nestedCollision({ observed, planned }: DecisionInput): Reason | null {
  const nested = new Set(observed.nested);
  if (nested.size === 0) return null;
  for (const { path } of planned)
    for (const place of [...ancestorsOf(path), path])
      if (nested.has(place))
        return reason(
          'path_in_nested_bundle',
          `the planned path "${path}" lies in "${place}", which is a managed bundle path of its own`,
        );
  return null;
}

/**
 * Outputs of this owner that the plan omits (where the workflow removes them), and what an interrupted
 * attempt had still to remove.
 */
function omitted({ planned, owner, workflow, observed }: DecisionInput, known: Known): Key[] {
  const kept = new Set<string>(planned.map(({ path }) => path));
  const goes = new Set<string>(known.unfinished.filter((path) => !kept.has(path)));
  if (workflow === 'replacement') {
    const announced = observed.state.kind === 'valid' ? (observed.state.catalog.pending?.outputs ?? []) : [];
    for (const record of [...known.records, ...announced])
      if (sameOwner(record.owner, owner) && !kept.has(record.path)) goes.add(record.path);
  }
  return [...goes].sort(compareCodeUnits).map(listedKey);
}

function reasonToPublish(
  { planned }: DecisionInput,
  state: Extract<CatalogState, { kind: 'valid' | 'legacy' }>,
  known: Known,
  removes: Key[],
): Reason | null {
  if (state.kind === 'legacy')
    return reason(
      'legacy_state',
      `the state has the superseded schema version ${state.version} and is rewritten as version 4`,
    );
  if (state.catalog.pending !== null)
    return reason(
      'attempt_interrupted',
      `attempt ${state.catalog.pending.attemptId} did not finish; what it began is done over`,
    );
  const recorded = new Map<string, OutputRecord>(known.records.map((record) => [record.path, record]));
  const differing = planned.filter((output) => !isRecordedAs(recorded.get(output.path), output));
  if (differing.length > 0)
    return reason(
      'outputs_differ',
      `${differing.length} of ${planned.length} planned outputs differ from their records`,
    );
  return removes.length > 0
    ? reason(
        'outputs_omitted',
        removes.length === 1
          ? '1 recorded output is no longer planned'
          : `${removes.length} recorded outputs are no longer planned`,
      )
    : null;
}

function skip(input: DecisionInput): Plan {
  return plan(
    input,
    'skip_same',
    reason('all_recorded', 'every planned output is recorded as it is planned'),
    {},
  );
}

function refuseOrForce(input: DecisionInput, action: 'fail_unmanaged' | 'fail_conflict', why: Reason): Plan {
  if (!input.force) return plan(input, action, why, {});
  const [nested] = input.observed.nested;
  if (nested !== undefined)
    throw new WaybillError(
      'nested_managed_path',
      `${input.destinationPath}: a forced replacement would delete "${nested}", which is a managed bundle path of its own`,
      { hint: 'publish to another path, or remove that bundle first' },
    );
  return { ...proceed(input, 'force_replace', why), clears: true };
}

function proceed(
  input: DecisionInput,
  action: Action,
  why: Reason,
  known: Known = nothingKnown,
  removes: Key[] = [],
): Plan {
  const written = new Set<string>(input.planned.map(({ path }) => path));
  const gone = new Set<string>(removes);
  const recorded = new Map<string, OutputRecord>(known.records.map((record) => [record.path, record]));
  const changes: PlannedChange[] = input.planned.map((output) => {
    const record = recorded.get(output.path);
    return {
      path: output.path,
      change: record === undefined ? 'add' : isRecordedAs(record, output) ? 'refresh' : 'update',
    };
  });
  for (const path of removes) changes.push({ path, change: 'remove' });
  return plan(input, action, why, {
    writes: [...input.planned],
    removes,
    keeps: known.records.filter(({ path }) => !written.has(path) && !gone.has(path)),
    changes,
  });
}

function plan(
  input: DecisionInput,
  action: Action,
  why: Reason,
  parts: Partial<Pick<Plan, 'writes' | 'removes' | 'keeps' | 'changes'>>,
): Plan {
  return {
    owner: input.owner,
    destinationPath: input.destinationPath,
    action,
    reason: why,
    writes: [],
    removes: [],
    keeps: [],
    changes: [],
    clears: false,
    ...parts,
  };
}

function reason(code: Reason['code'], message: string): Reason {
  return { code, message };
}

/** True for the actions that change the destination. */
export function changesDestination(action: Action): boolean {
  return action !== 'skip_same' && action !== 'fail_unmanaged' && action !== 'fail_conflict';
}
