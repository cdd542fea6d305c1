import type { Test } from 'tap';
import { defaultLeaseTimes } from '../../src/core/catalog/lease/lease.ts';
import type { LeaseTimes } from '../../src/core/context.ts';
import type { Clock } from '../../src/core/lib/clock.ts';
import { type ErrorRecord, errorRecord } from '../../src/core/lib/errors.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import { unpublish } from '../../src/core/publish/unpublish/unpublish.ts';
import type { Body, Storage } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';
import type { Case } from '../support/sampling.ts';
import { stepsOf, withoutIds } from './steps.ts';
import { type FaultLog, withFaults } from './with-faults.ts';
import {
  bundleOf,
  bundlePath,
  contextWith,
  destinationOf,
  type Files,
  leftovers,
  type Look,
  lookAt,
  owner,
  publishTo,
  put,
  testClock,
  untilAborted,
  type World,
} from './world.ts';

/**
 * A publisher is suspended after each of its storage operations and each read from its source. Another one
 * takes over. Then the first one resumes, when the other one is done or after each operation of the other
 * one.
 */

/** The other publisher polls rarely, so that it has few operations. */
const times: LeaseTimes = { ...defaultLeaseTimes, pollEveryMs: 20_000 };
const asleepMs = 200_000;

const slow: Files = { 'a.txt': 'slow', 'slow.txt': 's' };
const quick: Files = { 'a.txt': 'quick', 'quick.txt': 'q' };

/** The work of one of the two publishers. */
interface Task {
  act(publisher: Stoppable): Promise<{ error: ErrorRecord | null }>;
  /** The published release afterwards, or null if there is none. */
  leaves: Files | null;
}

const publishing = (files: Files): Task => ({
  act: async (publisher) => publish(publisher, files),
  leaves: files,
});

const unpublishing: Task = { act: unpublishAll, leaves: null };

export interface FrozenScenario {
  name: string;
  prepare(world: World): Promise<void>;
  frozen: Task;
  other: Task;
}

const bothPublish = { frozen: publishing(slow), other: publishing(quick) };
const publishOld = async (world: World): Promise<void> => {
  const files = { 'a.txt': 'old', 'old.txt': 'o' };
  await publishTo(await world.open(), { files, workflow: 'replacement' });
};

export const frozenScenarios: readonly FrozenScenario[] = [
  { name: 'a first publication', prepare: async () => undefined, ...bothPublish },
  { name: 'a replacement', prepare: publishOld, ...bothPublish },
  {
    name: 'a replacement after a crash',
    ...bothPublish,
    async prepare(world) {
      await publishOld(world);
      const log: FaultLog = { operations: [], fired: false, mutations: 0 };
      const at = 8;
      const crash = withFaults(await world.open(), { kind: 'crash', at, code: 'storage_permanent' }, log);
      await publishTo(crash, { files: { 'a.txt': 'crashed', 'new.txt': 'n' }, workflow: 'replacement' });
      if (!log.fired) throw new Error('the crash never came');
    },
  },
  { name: 'an unpublishing', prepare: publishOld, frozen: unpublishing, other: publishing(quick) },
  {
    name: 'a replacement, and the other one unpublishes',
    prepare: publishOld,
    frozen: publishing(slow),
    other: unpublishing,
  },
];

/**
 * The first work of the resumed process: its timers, which are all due, or the result of the operation that
 * it waited for. With `no time`, its clock stopped, too, as in a suspended virtual machine, so that only a
 * fence can detect the lost lease.
 */
type First = 'timers' | 'answer' | 'no time';

export interface Freeze {
  /** The operation, counted from 1. */
  at: number;
  first: First;
  /** The operation of the other publisher after which it resumes. null: when the other one is done. */
  wokenAt: number | null;
}

export interface FrozenOptions {
  /** The name of the world. */
  where: string;
  /** The stratum of a case. */
  stratum: (step: string, kind: 'whole' | 'midway' | 'no time') => string;
  /** The maximum number of cases in which the other publisher is still active, evenly spread. */
  maxMidway?: number;
  /** Whether outputs are renamed into place. A write in place takes time after the fence. */
  renames: boolean;
}

/** The freezes of a scenario; `start` becomes the destination that each case copies. */
export async function frozenCases(
  t: Test,
  start: World,
  scenario: FrozenScenario,
  { where, stratum, maxMidway = Infinity, renames }: FrozenOptions,
): Promise<Case[]> {
  await put(await start.open(), 'sibling', 'untouched');
  await scenario.prepare(start);
  const operations = await countOperations(t, start, scenario);
  // The other publisher waits until the lease is stale, which takes a few more polls.
  const others = operations.length + 16;
  const whole: Freeze[] = [];
  const midway: Freeze[] = [];
  for (let at = 1; at <= operations.length; at += 1)
    for (const first of ['timers', 'answer'] as const) {
      whole.push({ at, first, wokenAt: null });
      for (let wokenAt = 1; wokenAt <= others; wokenAt += 1) midway.push({ at, first, wokenAt });
    }
  const steps = stepsOf(operations);
  // Between the fence and the changes that follow it, only time protects them.
  for (const [index, step] of steps.entries())
    if (renames && /^staging: (?!read )/.test(step))
      whole.push({ at: index + 1, first: 'no time', wokenAt: null });
  const stride = Math.max(1, Math.ceil(midway.length / maxMidway));
  return [...whole, ...midway.filter((_, index) => index % stride === 0)].map((freeze) => {
    const { at, first, wokenAt } = freeze;
    const stoppedAfter = `${at} ${withoutIds(operations[at - 1] as string)}`;
    return {
      name: `${where}: ${scenario.name}, stopped after ${stoppedAfter}, ${first} first, continued at ${wokenAt ?? 'the end'}`,
      stratum: stratum(
        steps[at - 1] as string,
        first === 'no time' ? first : wokenAt === null ? 'whole' : 'midway',
      ),
      run: async () => wrongAfter(start, scenario, freeze),
    };
  });
}

async function countOperations(t: Test, start: World, scenario: FrozenScenario): Promise<string[]> {
  const world = await start.fork();
  const publisher = stoppable(await world.open());
  const { error } = await scenario.frozen.act(publisher);
  t.equal(error, null, 'it succeeds without faults');
  t.ok(publisher.operations.length > 8, `${publisher.operations.length} operations`);
  return publisher.operations;
}

async function wrongAfter(
  start: World,
  scenario: FrozenScenario,
  { at, first, wokenAt }: Freeze,
): Promise<string[]> {
  const world = await start.fork();
  const frozen = stoppable(await world.open(), at);
  const frozenResult = scenario.frozen.act(frozen);
  if ((await Promise.race([frozen.stopped, frozenResult.then(() => 'ended')])) === 'ended')
    return ['it was never stopped'];
  const hadCommitted = isLeftBy(await lookAt(world), scenario.frozen);

  // A publisher that had not started would now wait for the other one as usual.
  const other = stoppable(await world.open(), frozen.hadBegun ? (wokenAt ?? 0) : 0);
  const otherResult = scenario.other.act(other);
  await Promise.race([other.stopped, otherResult]);
  await frozen.wake(first);
  const { error } = await frozenResult;
  const otherIsMidway = other.isStopped();
  await other.go();
  const { error: otherError } = await otherResult;

  const wrong: string[] = [];
  if (otherError !== null) wrong.push(`the other one failed: ${otherError.code} ${otherError.message}`);
  if (frozen.hadBegun && !hadCommitted && error?.code !== 'lease_lost')
    wrong.push(
      `it did not lose its lease: ${error === null ? 'it succeeded' : `${error.code} ${error.message}`}`,
    );
  const left = await lookAt(world);
  // A publisher that had not begun to take the lease counts as started later.
  const isLast = !frozen.hadBegun && !hadCommitted && !otherIsMidway && error === null;
  if (!isLeftBy(left, isLast ? scenario.frozen : scenario.other))
    wrong.push(`the result of ${isLast ? 'it' : 'the other one'} is missing, or the state has an intent`);
  wrong.push(...left.catalogMismatches);
  const next = await scenario.other.act(stoppable(await world.open()));
  // There may be nothing left to unpublish.
  if (next.error !== null && next.error.code !== 'not_published') wrong.push('the next run failed');
  const files = await world.files();
  wrong.push(...leftovers(files).map((name) => `"${name}" was left`));
  const { leaves } = scenario.other;
  const expected = { ...leaves, '../sibling': 'untouched' };
  for (const [name, text] of Object.entries(expected)) {
    const key = name.startsWith('../') ? name.slice(3) : `${bundlePath}/${name}`;
    if (files.get(key) !== text) wrong.push(`"${key}" holds ${String(files.get(key))}`);
  }
  const catalogs = leaves === null ? 0 : 1;
  if (files.size !== Object.keys(expected).length + catalogs)
    wrong.push(`there are also others: ${[...files.keys()].join(', ')}`);
  await world.drop?.();
  return wrong;
}

/** Whether the catalog has the result of this task, and no attempt is unfinished. */
function isLeftBy({ state }: Look, { leaves }: Task): boolean {
  if (leaves === null) return state.kind === 'absent';
  if (state.kind !== 'valid' || state.catalog.pending !== null) return false;
  const recorded = state.catalog.outputs.map(({ path }) => path as string).sort();
  return recorded.join() === Object.keys(leaves).sort().join();
}

interface Stoppable {
  storage: Storage;
  clock: Clock;
  operations: string[];
  /** Whether it had begun to take the lease when it was suspended. */
  hadBegun: boolean;
  stopped: Promise<unknown>;
  isStopped(): boolean;
  /** A body whose read counts as an operation. */
  body: (name: string, body: Body) => Body;
  /** Resumes it after it was suspended for longer than its lease. */
  wake(first: First): Promise<void>;
  /** Resumes it as if no time had passed. */
  go(): Promise<void>;
}

/** A storage and a clock whose process is suspended after the operation `at`. */
function stoppable(inner: Storage, at = 0): Stoppable {
  const stopped = promised();
  const woken = promised();
  let isStopped = false;
  let elapsed = 0;
  const beats = new Map<() => void, number>();
  const fire = (): void => {
    for (const [beat, due] of beats) if (due <= elapsed) beat();
  };
  const after = async (name: string): Promise<void> => {
    publisher.operations.push(name);
    if (publisher.operations.length !== at) return;
    isStopped = true;
    publisher.hadBegun = beats.size > 0;
    stopped.resolve();
    await woken.promise;
  };
  const step = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const result = await work();
    await after(name);
    return result;
  };
  const base = testClock();
  const publisher: Stoppable = {
    operations: [],
    hadBegun: false,
    stopped: stopped.promise,
    isStopped: () => isStopped,
    clock: {
      ...base,
      now: () => new Date(Date.parse('2026-11-20T00:00:00Z') + elapsed),
      monotonic: () => elapsed,
      async sleep(ms, signal) {
        if (ms !== times.renewEveryMs) {
          elapsed += ms;
          fire();
          return;
        }
        const beat = promised();
        beats.set(beat.resolve, elapsed + ms);
        await Promise.race([beat.promise, untilAborted(signal)]).finally(() => beats.delete(beat.resolve));
      },
    },
    storage: stopping(inner, step, after),
    body: (name, body) => ({
      size: body.size,
      async *open() {
        yield* body.open();
        await after(`source of ${name}`);
      },
    }),
    async wake(first) {
      if (first === 'no time') {
        await this.go();
        return;
      }
      elapsed += asleepMs;
      if (first === 'timers') {
        fire();
        await turns();
      }
      isStopped = false;
      woken.resolve();
      await turns();
      fire();
    },
    async go() {
      isStopped = false;
      woken.resolve();
    },
  };
  return publisher;
}

/** A rename of several files counts as one operation per file. */
function stopping(
  inner: Storage,
  step: <T>(name: string, work: () => Promise<T>) => Promise<T>,
  after: (name: string) => Promise<void>,
): Storage {
  return delegate(inner, {
    stat: (key) => step(`stat ${key}`, () => inner.stat(key)),
    async *list(directory, how) {
      const entries = [];
      for await (const entry of inner.list(directory, how)) entries.push(entry);
      await after(`list ${directory}`);
      yield* entries;
    },
    async *read(key) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of inner.read(key)) chunks.push(chunk);
      await after(`read ${key}`);
      yield* chunks;
    },
    write: (key, body, how) => step(`write ${key}`, () => inner.write(key, body, how)),
    async rename(moves) {
      for (const move of moves) await step(`rename ${move.to}`, () => inner.rename!([move]));
    },
    obstacleTo: (change) => step('obstacleTo', () => inner.obstacleTo(change)),
    backUp: (key, aside) => step(`keep ${key}`, () => inner.backUp!(key, aside)),
    duplicate: (from, to) => step(`duplicate ${to}`, () => inner.duplicate!(from, to)),
    readLink: (key) => step(`readLink ${key}`, () => inner.readLink!(key)),
    replaceLink: (key, target) => step(`replaceLink ${key}`, () => inner.replaceLink!(key, target)),
    restore: (kept) => step(`restore ${kept.key}`, () => inner.restore!(kept)),
    sync: () => step('sync', () => inner.sync!()),
    remove: (key, options) => step(`remove ${key}`, () => inner.remove(key, options)),
    removeTree: (directory) => step(`removeTree ${directory}`, () => inner.removeTree(directory)),
    close: () => inner.close(),
  });
}

async function publish(
  { storage, clock, body }: Stoppable,
  files: Files,
): Promise<{ error: ErrorRecord | null }> {
  const bundle = bundleOf(files);
  for (const file of bundle.files) file.body = body(file.path, file.body);
  const destination = destinationOf('replacement', owner.destinationId);
  return publishBundle(
    { ...contextWith(clock), leaseTimes: times },
    storage,
    { bundle, owner, destination, destinationPath: bundlePath },
    { dryRun: false, force: false },
  );
}

async function unpublishAll({ storage, clock }: Stoppable): Promise<{ error: ErrorRecord | null }> {
  const request = { owner, destinationPath: bundlePath, maxRemoved: null, dryRun: false, concurrency: 1 };
  return unpublish({ ...contextWith(clock), leaseTimes: times }, storage, request).then(
    () => ({ error: null }),
    (error: unknown) => ({ error: errorRecord(error) }),
  );
}

function promised(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}

/** Runs all tasks that need no external result. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
