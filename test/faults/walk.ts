import type { Test } from 'tap';
import type { Case } from '../support/sampling.ts';
import type { Scenario } from './scenarios.ts';
import { stepsOf, withoutIds } from './steps.ts';
import {
  distinctKinds,
  type Fault,
  type FaultKind,
  faultKinds,
  type FaultLog,
  withFaults,
} from './with-faults.ts';
import { bundlePath, leftovers, lookAt, retrying, type World } from './world.ts';

/**
 * Every fault at every storage operation of every action. A clean run counts the operations. Then, for each
 * operation and each kind of fault, a new world gets the fault, a restart, and the next run, which must
 * repair everything without force.
 */

/** A scenario whose destination is prepared, and whose clean run is known. */
export interface Prepared {
  /** The name of the world and the action in cases and strata. */
  name: string;
  scenario: Scenario;
  /** A copy of the prepared destination. */
  fork: () => Promise<World>;
  /** The files of the prepared destination. */
  before: ReadonlyMap<string, string>;
  /** The storage operations of the clean run. */
  operations: readonly string[];
}

/** Prepares a scenario once for all its cases, and checks its clean run. */
export async function prepare(t: Test, start: World, where: string, scenario: Scenario): Promise<Prepared> {
  await scenario.prepare(await start.open());
  const before = await start.files();
  const world = await start.fork();
  t.same(await world.files(), before, 'a copy has the prepared content');
  const log = newLog();
  t.ok(await scenario.work(withFaults(await world.open(), null, log)), 'the clean run succeeds');
  t.ok(log.mutations > 0, 'the clean run changes something');
  t.same(await shortfalls(world, scenario), [], 'the clean run has the right result');
  const name = `${where}: ${scenario.action}`;
  return { name, scenario, fork: () => start.fork(), before, operations: log.operations };
}

export interface FaultOptions {
  /** Every error code, also with retries. Otherwise, only the faults that differ on a storage. */
  everyCode: boolean;
  /** The stratum of a case. */
  stratum: (step: string, kind: FaultKind) => string;
}

/** Every kind of failure, at each operation of the scenario. */
export function faultCases(prepared: Prepared, { everyCode, stratum }: FaultOptions): Case[] {
  const { name, operations } = prepared;
  const steps = stepsOf(operations);
  return operations.flatMap((operation, index) =>
    (everyCode ? faultKinds : distinctKinds(operation)).flatMap((kind) =>
      variantsOf(kind, everyCode).map(({ code, retries }): Case => {
        const fault: Fault = { kind, at: index + 1, code };
        return {
          name: `${name}, ${kind} (${code}, ${retries} retries) at ${fault.at} ${withoutIds(operation)}`,
          stratum: stratum(steps[index] as string, kind),
          run: async () => walk(prepared, fault, retries),
        };
      }),
    ),
  );
}

interface Variant {
  code: Fault['code'];
  retries: number;
}

function variantsOf(kind: FaultKind, everyCode: boolean): Variant[] {
  const once: Variant = { code: 'storage_transient', retries: 0 };
  // A crash has no code, and is not retried.
  if (!everyCode || kind === 'crash') return [once];
  const retried: Variant = { code: 'storage_transient', retries: 3 };
  // A lost response and a hang are always transient.
  if (kind !== 'before' && kind !== 'partial') return [once, retried];
  return [{ code: 'storage_permanent', retries: 0 }, once, retried];
}

/** Runs one fault point. Returns the errors afterwards. */
async function walk(
  { fork, before, scenario, operations }: Prepared,
  fault: Fault,
  retries: number,
): Promise<string[]> {
  const world = await fork();
  const log = newLog();
  const root = retrying(withFaults(await world.open(), fault, log), retries);
  const succeeded = await scenario.work(root).catch(() => false);
  const wrong: string[] = [];
  if (!log.fired) wrong.push('the fault never fired');
  if (retries > 0 && !succeeded) wrong.push('a retried passing failure failed the publication');
  wrong.push(...earlyDeletes(log, before, scenario));
  if (succeeded) wrong.push(...notSynced(log, fault));

  const { files: afterFault, catalogMismatches } = await lookAt(world);
  if (scenario.startsUntrue !== true)
    wrong.push(...catalogMismatches.map((what) => `after the fault ${what}`));
  if (!succeeded && isUndone(scenario, fault, commitIn(operations)))
    wrong.push(...differences(before, afterFault, { withState: fault.code === 'storage_permanent' }));
  for (const [name, text] of Object.entries(scenario.untouched))
    if (afterFault.get(name) !== text) wrong.push(`after the fault "${name}" was touched`);

  if (!(await scenario.rerun(await world.open()).catch(() => false))) wrong.push('the rerun failed');
  wrong.push(...(await shortfalls(world, scenario)));
  await world.drop?.();
  return wrong;
}

/**
 * The operation, counted from 1, with which the commit begins. This is the one that replaces the state by
 * the one without the intent, or removes it. If the server does not support its condition, it is the read
 * before it. It may also be the removal of copies that an undo would need.
 */
export function commitIn(operations: readonly string[]): number {
  const isCommit = (name: string): boolean =>
    /^(write|remove|rename \S+\/state-\d+) (\S+\/)?\.publisher\.json$/.test(name);
  let at = operations.findLastIndex(isCommit);
  const isBefore = /^(read|removeTree) /;
  while (isBefore.test(operations[at - 1] ?? '') && operations[at]?.startsWith('rename ') !== true) at -= 1;
  return at + 1;
}

/** They record their completed work, or consist of two attempts. */
export const recorded: ReadonlySet<string> = new Set([
  'prune',
  'reconcile',
  'unpublish, then publish',
  'upsert_additive, and another bundle after it',
]);

/**
 * Whether the destination must be unchanged after this fault made the attempt fail. It may change if the
 * process died, or if the result of the commit is unknown. A prune and a reconciliation record their
 * completed work.
 */
function isUndone({ action }: Scenario, { kind, at, code }: Fault, commitAt: number): boolean {
  if (kind === 'crash' || recorded.has(action)) return false;
  return (code === 'storage_permanent' && action !== 'unpublish') || at < commitAt;
}

/**
 * The differences that an undone attempt left. Without `withState`, the intent may stay: a response was
 * lost, so that a request may still be executed.
 */
export function differences(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  { withState }: { withState: boolean },
): string[] {
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names]
    .filter((name) => before.get(name) !== after.get(name) && (withState || !name.includes('.publisher')))
    .map(
      (name) => `"${name}" was not put back: ${String(before.get(name))} became ${String(after.get(name))}`,
    );
}

/**
 * The invariant after the next run: the result is right, no other files changed or remain, and one more run
 * changes nothing.
 */
export async function shortfalls(world: World, scenario: Scenario): Promise<string[]> {
  const { files, state, catalogMismatches } = await lookAt(world);
  const wrong = [...catalogMismatches];
  if (scenario.endsWithoutState === true) {
    if (state.kind !== 'absent') wrong.push(`the state is ${state.kind}`);
  } else if (state.kind !== 'valid' || state.catalog.pending !== null)
    wrong.push(`the state is ${state.kind} or has an intent`);
  wrong.push(...leftovers(files).map((name) => `"${name}" was left behind`));
  const expected = new Map(Object.entries(scenario.untouched));
  for (const [name, text] of Object.entries(scenario.outcome)) expected.set(`${bundlePath}/${name}`, text);
  for (const [name, text] of expected)
    if (files.get(name) !== text) wrong.push(`"${name}" holds ${String(files.get(name))}`);
  for (const name of files.keys())
    if (!expected.has(name) && !name.endsWith('.publisher.json')) wrong.push(`"${name}" is there`);

  const log = newLog();
  if (!(await scenario.rerun(withFaults(await world.open(), null, log)))) wrong.push('one more run failed');
  if (log.mutations > 0) wrong.push(`one more run changed something: ${log.operations.join(', ')}`);
  return wrong;
}

/** No output that existed before may be removed until every write of the plan has succeeded. */
function earlyDeletes(log: FaultLog, before: ReadonlyMap<string, string>, scenario: Scenario): string[] {
  if (scenario.action === 'prune' || scenario.action === 'unpublish, then publish') return [];
  const removal = log.operations.findIndex(
    (name) => name.startsWith('remove ') && before.has(name.slice(7)) && !name.includes('.publisher'),
  );
  const lastWrite = log.operations.findLastIndex((name) =>
    /^write .*(output-|\/(a\.txt|new\/d\.txt)$)/.test(name),
  );
  return removal !== -1 && removal < lastWrite
    ? [`${log.operations[removal] ?? ''} came before the last write`]
    : [];
}

/** A successful action has synced the state that it renamed into place, because a power loss may follow. */
function notSynced({ operations }: FaultLog, fault: Fault): string[] {
  const commit = operations.findLastIndex((name) =>
    /^(remove|rename \S+) (\S+\/)?\.publisher\.json$/.test(name),
  );
  const isSynced = operations.some(
    (name, index) => name === 'sync' && index > commit && (index + 1 !== fault.at || fault.kind === 'after'),
  );
  const isRenamed = operations[commit]?.startsWith('rename') === true;
  return isRenamed && !isSynced ? ['success was reported before the state was synced'] : [];
}

export function newLog(): FaultLog {
  return { operations: [], fired: false, mutations: 0 };
}
