import type { Test } from 'tap';
import { prune, type PruneReport } from '../../src/core/maintain/prune.ts';
import { repair } from '../../src/core/maintain/repair.ts';
import { verify } from '../../src/core/maintain/verify.ts';
import type { PipelineConfig } from '../../src/core/config/config.ts';
import { memoryStorage } from '../support/memory-storage.ts';
import { reconcile } from '../../src/core/maintain/reconcile.ts';
import { hasCode } from '../../src/core/errors.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { unpublish } from '../../src/core/publish/unpublish/unpublish.ts';
import { eachPoint } from './each-point.ts';
import { faultKinds, withFaults, type Fault, type FaultKind, type FaultLog } from './with-faults.ts';
import {
  bundlePath,
  contextWith,
  destinationOf,
  litter,
  lookAt,
  otherOwner,
  owner,
  publishTo,
  put,
  retrying,
  stateOf,
  testClock,
  type Files,
  type World,
} from './world.ts';
import { sampleOf, share } from '../support/sampling.ts';

/**
 * Every fault at every storage operation of every action: a clean run counts the operations; then, for each
 * of them and each kind of fault, a fresh world, the fault, a reboot, and the rerun that must make everything
 * right without force.
 */

const v1: Files = { 'a.txt': 'a1', 'dir/c.txt': 'c1' };
/** Directories that move whole, with the assets or with the pages, and one that holds both. */
const site: Files = {
  ...{ 'index.html': 'home', 'both/page.html': 'p', 'both/style.css': 's', 'both/deep/er/map.json': 'm' },
  ...{ 'assets/app.js': 'j', 'assets/img/one.png': '1', 'pages/about.html': 'a' },
};
const v2: Files = { 'a.txt': 'a2', 'new/d.txt': 'd2' };
/** One file of `v1` differs, the other one is kept. */
const partly: Files = { ...v1, 'a.txt': 'a2' };
/** `dir/c.txt` becomes a file where a directory was, and `a.txt` a directory where a file was. */
const turned: Files = { 'a.txt/inner': 'i', dir: 'now a file' };

export interface Scenario {
  action: string;
  /** Makes the destination as it is before the fault. */
  prepare(root: Storage): Promise<void>;
  /** The work that the fault hits. Rejects, or returns false, where it failed. */
  work(root: Storage): Promise<boolean>;
  /** The same work as the next run does it, without force. */
  rerun(root: Storage): Promise<boolean>;
  /** What the bundle path must hold in the end, the state apart. */
  outcome: Files;
  /** Files that nothing may touch. */
  untouched: Files;
  /** The state that the work finds records files that are gone. */
  startsUntrue?: boolean;
  /** Nothing is published in the end, and there is no state. */
  endsWithoutState?: boolean;
}

const beside: Files = {
  'sibling.txt': 'a sibling',
  'bundle-2/file': 'a neighbour',
  'top/other': 'elsewhere',
};
const guests: Files = { [`${bundlePath}/unmanaged.txt`]: 'not ours' };

async function putAll(root: Storage, files: Files): Promise<void> {
  for (const [name, text] of Object.entries(files)) await put(root, name, text);
}

async function succeeds(result: Promise<{ action: string; error: unknown }>): Promise<boolean> {
  return (await result).error === null;
}

async function pruned(root: Storage): Promise<boolean> {
  const report: PruneReport = await prune(contextWith(testClock()), root, {
    owner,
    policy: { enabled: true, keepLatest: 1, olderThanMs: null },
    maxRemoved: null,
    dryRun: false,
  });
  return report.errors.length === 0;
}

async function reconciled(root: Storage): Promise<boolean> {
  const reports = await reconcile(contextWith(testClock()), root, { owner, dryRun: false, allOwners: false });
  return reports.every(({ error }) => error === null);
}

/** Once there is nothing to unpublish, that is done. */
async function unpublished(root: Storage): Promise<boolean> {
  const request = { owner, destinationPath: bundlePath, maxRemoved: null, dryRun: false, concurrency: 1 };
  return unpublish(contextWith(testClock()), root, request).then(
    () => true,
    (error: unknown) => hasCode(error, 'not_published') || hasCode(error, 'not_owned'),
  );
}

const whole: Files = { 'a.txt': 'a1', 'b.txt': 'b1', 'dir/c.txt': 'c1' };

/** From a source that still holds all of `whole`. */
async function repaired(root: Storage): Promise<boolean> {
  const source = memoryStorage({ flavour: 'files' });
  const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: Object.keys(whole) };
  await put(source, 'bundle/manifest.json', JSON.stringify(manifest));
  for (const [name, text] of Object.entries(whole)) await put(source, `bundle/${name}`, text);
  const destination = destinationOf('additive');
  const pipeline: PipelineConfig = {
    id: owner.pipelineId,
    source: { backend: 'local', path: '/source' },
    sourceId: '/source',
    destinations: [destination],
    maxWaiting: null,
    schedule: null,
    watch: null,
    sceneMaps: { contentRules: 'warning' },
  };
  const context = { ...contextWith(testClock()), openStorage: async () => source };
  const verified = await verify(root, { concurrency: 1 });
  const done = await repair(context, { pipeline, destination, root, dryRun: false }, verified);
  return (
    verified.every(({ error }) => error === null) &&
    done.every((report) => report === null || (report.error === null && report.unrepaired.length === 0))
  );
}

export const scenarios: readonly Scenario[] = [
  {
    action: 'publish_new',
    prepare: (root) => putAll(root, beside),
    work: (root) => succeeds(publishTo(root, { files: v2 })),
    rerun: (root) => succeeds(publishTo(root, { files: v2 })),
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'upsert_additive',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await publishTo(root, { files: { 'theirs.txt': 'theirs' }, as: otherOwner });
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: v2 })),
    rerun: (root) => succeeds(publishTo(root, { files: v2 })),
    outcome: { ...v1, ...v2, 'theirs.txt': 'theirs' },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'upsert_additive, most of it kept and one file gone',
    async prepare(root) {
      await publishTo(root, { files: { ...v1, 'b.txt': 'b1', 'gone.txt': 'gone' } });
      await root.remove('bundle/gone.txt' as never);
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: { ...partly, 'b.txt': 'b1', 'gone.txt': 'gone' } })),
    rerun: (root) => succeeds(publishTo(root, { files: { ...partly, 'b.txt': 'b1', 'gone.txt': 'gone' } })),
    outcome: { ...partly, 'b.txt': 'b1', 'gone.txt': 'gone' },
    untouched: guests,
    startsUntrue: true,
  },
  {
    action: 'replace_catalog',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1, workflow: 'replacement' });
      await publishTo(root, { files: { 'theirs.txt': 'theirs' }, as: otherOwner });
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    rerun: (root) => succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    outcome: { ...v2, 'theirs.txt': 'theirs' },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'replace_catalog, files and directories trading places',
    async prepare(root) {
      await publishTo(root, { files: v1, workflow: 'replacement' });
    },
    work: (root) => succeeds(publishTo(root, { files: turned, workflow: 'replacement' })),
    rerun: (root) => succeeds(publishTo(root, { files: turned, workflow: 'replacement' })),
    outcome: turned,
    untouched: {},
  },
  {
    action: 'force_replace of unmanaged content',
    prepare: (root) => putAll(root, { ...beside, ...guests, [`${bundlePath}/a.txt`]: 'in the way' }),
    work: (root) => succeeds(publishTo(root, { files: v2, force: true })),
    // Where the fault struck before the intent was written, nothing was forced yet, and force is what the
    // operator gives again.
    async rerun(root) {
      const begun = (await stateOf(root)).kind === 'valid';
      return succeeds(publishTo(root, { files: v2, force: !begun }));
    },
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'force_replace of an invalid state',
    async prepare(root) {
      await publishTo(root, { files: v1 });
      await putAll(root, { ...beside, [`${bundlePath}/.publisher.json`]: '{"schema_version": 4' });
    },
    work: (root) => succeeds(publishTo(root, { files: v2, force: true })),
    async rerun(root) {
      const begun = (await stateOf(root)).kind === 'valid';
      return succeeds(publishTo(root, { files: v2, force: !begun }));
    },
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'publish of new directories beside those that are there',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await putAll(root, guests);
    },
    work: (root) => succeeds(publishTo(root, { files: { ...v1, ...site } })),
    rerun: (root) => succeeds(publishTo(root, { files: { ...v1, ...site } })),
    outcome: { ...v1, ...site },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'legacy state published over',
    prepare: (root) =>
      putAll(root, {
        ...beside,
        [`${bundlePath}/.publisher.json`]: '{"version": 2, "files": ["a.txt"]}',
        [`${bundlePath}/a.txt`]: 'old',
      }),
    work: (root) => succeeds(publishTo(root, { files: v2 })),
    rerun: (root) => succeeds(publishTo(root, { files: v2 })),
    outcome: v2,
    untouched: beside,
  },
  {
    action: 'prune',
    async prepare(root) {
      await putAll(root, { ...beside });
      await publishTo(root, { files: { 'a.txt': 'a1', 'b.txt': 'b1', 'dir/c.txt': 'c1' } });
      await putAll(root, guests);
    },
    work: pruned,
    rerun: pruned,
    outcome: { 'a.txt': 'a1' },
    untouched: { ...beside, ...guests },
  },
  {
    action: 'reconcile',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await root.remove('bundle/dir/c.txt' as never);
      await putAll(root, guests);
    },
    work: reconciled,
    rerun: reconciled,
    outcome: { 'a.txt': 'a1' },
    untouched: { ...beside, ...guests },
    // That is what it is for.
    startsUntrue: true,
  },
  {
    action: 'verify --repair',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: whole });
      await root.remove('bundle/dir/c.txt' as never);
      await putAll(root, { ...guests, [`${bundlePath}/b.txt`]: 'altered' });
    },
    work: repaired,
    // What a repair left unfinished, a run finishes; it repairs nothing else.
    rerun: async (root) => (await succeeds(publishTo(root, { files: whole }))) && repaired(root),
    outcome: whole,
    untouched: { ...beside, ...guests },
    startsUntrue: true,
  },
  {
    action: 'unpublish',
    async prepare(root) {
      await putAll(root, beside);
      await publishTo(root, { files: v1 });
      await putAll(root, guests);
    },
    work: unpublished,
    rerun: unpublished,
    outcome: {},
    untouched: { ...beside, ...guests },
    endsWithoutState: true,
  },
  {
    action: 'unpublish beside another owner',
    async prepare(root) {
      await publishTo(root, { files: { 'theirs.txt': 'theirs' }, as: otherOwner });
      await publishTo(root, { files: v1 });
    },
    work: unpublished,
    rerun: unpublished,
    outcome: { 'theirs.txt': 'theirs' },
    untouched: {},
  },
  {
    action: 'unpublish, then publish',
    prepare: async (root) => {
      await publishTo(root, { files: v1, workflow: 'replacement' });
    },
    work: async (root) =>
      (await unpublished(root)) && succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    rerun: (root) => succeeds(publishTo(root, { files: v2, workflow: 'replacement' })),
    outcome: v2,
    untouched: {},
  },
];

/** Without retries a hang is the same as a failure before. */
const sampled = faultKinds.filter((kind) => kind !== 'hang');

export type WorldFactory = (t: Test) => World | Promise<World>;

/**
 * Every way to fail, at each operation of the scenario; or one way for each kind of fault, where worlds are
 * dear.
 */
export interface WalkOptions {
  everyCode: boolean;
  /** One kind of fault at each operation, the kinds in turn, instead of all. */
  sample?: boolean;
  /** Worlds side by side. */
  concurrency: number;
  /** How many fault points of the scenario a run outside CI draws. */
  drawn: number;
}

/** How many fault points were walked, of how many there are. */
export interface Walked {
  points: number;
  all: number;
}

/**
 * Walks every fault point of a scenario, or a sample outside CI. Each must leave what the next run makes
 * right.
 */
export async function walkScenario(
  t: Test,
  newWorld: WorldFactory,
  scenario: Scenario,
  { everyCode, concurrency, drawn, sample = false }: WalkOptions,
): Promise<Walked> {
  const start = await prepared(t, newWorld, scenario);
  const operations = await countOperations(t, start, scenario);
  const all: { fault: Fault; retries: number }[] = [];
  for (let at = 1; at <= operations.length; at += 1)
    for (const kind of sample ? [sampled[at % sampled.length] as FaultKind] : faultKinds)
      for (const [code, retries] of [
        ['storage_permanent', 0],
        ['storage_transient', 0],
        ['storage_transient', 3],
      ] as const) {
        // A lost answer and a hang are transient by nature, and a crash has no code.
        if (code === 'storage_permanent' && kind !== 'before' && kind !== 'partial') continue;
        if (kind === 'crash' && retries > 0) continue;
        // Without retries a hang is the same as a failure before.
        if (!everyCode && (code === 'storage_permanent' || retries > 0 || kind === 'hang')) continue;
        all.push({ fault: { kind, at, code }, retries });
      }
  const points = sampleOf(all, drawn, scenario.action);
  const failures: string[] = [];
  await eachPoint(t, points, concurrency, async ({ fault, retries }) => {
    const wrong = await walk(start, scenario, { fault, retries, commitAt: commitIn(operations) });
    const where = `${fault.kind} (${fault.code}, ${retries} retries) at ${fault.at} ${operations[fault.at - 1] ?? ''}`;
    failures.push(...wrong.map((what) => `${where}: ${what}`));
  });
  t.same(
    failures.slice(0, 10),
    [],
    `${operations.length} operations, ${share(points.length, all.length)} fault points walked`,
  );
  return { points: points.length, all: all.length };
}

/** A destination as the scenario finds it; each case gets a copy. */
export interface Prepared {
  fork: () => Promise<World>;
  before: ReadonlyMap<string, string>;
}

/** Prepares a scenario once for all its cases: publishing what is there before is a third of a case. */
export async function prepared(t: Test, newWorld: WorldFactory, scenario: Scenario): Promise<Prepared> {
  const world = await newWorld(t);
  await scenario.prepare(await world.open());
  return { fork: () => world.fork(), before: await world.files() };
}

export async function countOperations(t: Test, start: Prepared, scenario: Scenario): Promise<string[]> {
  const world = await start.fork();
  t.same(await world.files(), start.before, 'a copy holds what was prepared');
  const log = newLog();
  t.ok(await scenario.work(withFaults(await world.open(), null, log)), 'the clean run succeeds');
  t.ok(log.mutations > 0, 'the clean run changes something');
  t.same(await shortfalls(world, scenario), [], 'the clean run does what it should');
  return log.operations;
}

/** One fault point; returns what was not as it must be. */
async function walk(
  { fork, before }: Prepared,
  scenario: Scenario,
  { fault, retries, commitAt }: { fault: Fault; retries: number; commitAt: number },
): Promise<string[]> {
  const world = await fork();
  const log = newLog();
  const root = retrying(withFaults(await world.open(), fault, log), retries);
  const succeeded = await scenario.work(root).catch(() => false);
  const wrong: string[] = [];
  if (!log.fired) wrong.push('the fault never fired');
  if (retries > 0 && !succeeded) wrong.push('a retried passing failure failed the publication');
  wrong.push(...earlyDeletes(log, before, scenario));

  const { files: afterFault, untruths } = await lookAt(world);
  if (scenario.startsUntrue !== true) wrong.push(...untruths.map((what) => `after the fault ${what}`));
  if (!succeeded && isUndone(scenario, fault, commitAt))
    wrong.push(...differences(before, afterFault, { withState: fault.code === 'storage_permanent' }));
  for (const [name, text] of Object.entries(scenario.untouched))
    if (afterFault.get(name) !== text) wrong.push(`after the fault "${name}" was touched`);

  if (!(await scenario.rerun(await world.open()).catch(() => false))) wrong.push('the rerun failed');
  wrong.push(...(await shortfalls(world, scenario)));
  return wrong;
}

/**
 * The operation, counted from 1, with which the commit begins: the one that replaces the state by the one
 * without the intent, or removes it; or the look before it, on a server that does not honour the condition of
 * that; or the removal of copies without which nothing can be put back.
 */
export function commitIn(operations: readonly string[]): number {
  const isCommit = (name: string): boolean =>
    /^(write|remove|rename \S+\/state-\d+) (\S+\/)?\.publisher\.json$/.test(name);
  let at = operations.findLastIndex(isCommit);
  const isBefore = /^(read|removeTree) /;
  while (isBefore.test(operations[at - 1] ?? '') && operations[at]?.startsWith('rename ') !== true) at -= 1;
  return at + 1;
}

/** They record what they have done, or consist of two attempts. */
export const recorded: ReadonlySet<string> = new Set(['prune', 'reconcile', 'unpublish, then publish']);

/**
 * Whether the destination must be as before the attempt, after this fault made it fail: unless the process
 * died, or the outcome of the commit is unknown. A prune and a reconciliation record what they have done.
 */
function isUndone({ action }: Scenario, { kind, at, code }: Fault, commitAt: number): boolean {
  if (kind === 'crash' || recorded.has(action)) return false;
  return (code === 'storage_permanent' && action !== 'unpublish') || at < commitAt;
}

/**
 * What an attempt that was undone left different. Without `withState`, the intent may stay: an answer was
 * lost, so that a request may still be carried out.
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
 * What must hold after a rerun: the outcome, nothing else touched or left, and one more run that changes
 * nothing.
 */
export async function shortfalls(world: World, scenario: Scenario): Promise<string[]> {
  const { files, state, untruths } = await lookAt(world);
  const wrong = [...untruths];
  if (scenario.endsWithoutState === true) {
    if (state.kind !== 'absent') wrong.push(`the state is ${state.kind}`);
  } else if (state.kind !== 'valid' || state.catalog.pending !== null)
    wrong.push(`the state is ${state.kind} or has an intent`);
  wrong.push(...litter(files).map((name) => `"${name}" was left behind`));
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

/** No output that was there before may be removed until every write of the plan has succeeded. */
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

export function newLog(): FaultLog {
  return { operations: [], fired: false, mutations: 0 };
}
