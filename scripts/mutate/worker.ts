/**
 * Runs bundled test files one after the other in one process, each in modules of its own, with one mutant or
 * none. Whoever started it gives it one `Run` at a time and receives one `Answer`.
 */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { Test } from 'tap';

export interface Run {
  readonly bundle: string;
  /** Which tests of the file, counted from 0; all without it. */
  readonly only?: readonly number[];
  readonly mutant?: string;
  /** A mutant that is reached more often than this loops. */
  readonly hitLimit?: number;
  /** Whether the mutant may act while modules are loaded, so that they have to be loaded with it. */
  readonly reload?: boolean;
}

export interface Answer {
  readonly passed: boolean;
  /** What failed first. */
  readonly failure?: string;
  readonly ms: number;
  /** How many tests the file has. */
  readonly tests: number;
  /** How often each mutant was reached while the tests ran, and which while the modules were loaded. */
  readonly hits: Readonly<Record<string, number>>;
  readonly loading: readonly string[];
  /** Whether the modules were loaded for this run, so that no earlier one has a part in what came out. */
  readonly isFresh: boolean;
  /** Whether nothing of this run goes on. */
  readonly isQuiet: boolean;
}

/** What a run that ended has reached. */
type Reached = Pick<Answer, 'tests' | 'hits' | 'loading' | 'isFresh'>;

type Hits = Record<string, number>;
/** What the instrumented code reads and writes. */
interface Namespace {
  activeMutant?: string | undefined;
  hitCount?: number | undefined;
  hitLimit?: number | undefined;
  currentTestId?: string;
  mutantCoverage?: { static: Hits; perTest: Record<string, Hits> };
}

/** A test file that was loaded: what it asked tap for, to be asked again for each mutant. */
interface Loaded {
  readonly namespace: Namespace;
  readonly calls: readonly Call[];
  /** Whether a mutant has run in it, which may have spoilt data that the file keeps for all its tests. */
  isUsed: boolean;
}
type RootMethod = (typeof rootMethods)[number];
interface Call {
  readonly method: RootMethod;
  readonly given: readonly unknown[];
}

const rootMethods = ['test', 'beforeEach', 'afterEach', 'teardown', 'comment', 'setTimeout'] as const;
const globals = globalThis as { __stryker__?: Namespace; testOfMutants?: unknown };
const loaded = new Map<string, Promise<Loaded>>();
let running: ReturnType<typeof newTest> | undefined;
let started = 0;
const tick = 50;
const stillStuck = 8;

// That a property fails is enough to know; to look for its smallest counterexample takes most of the time.
fc.configureGlobal({ endOnFailure: true });

// What an earlier run left behind says nothing about this one; tap catches what belongs to a test.
process.on('unhandledRejection', () => undefined);
process.on('uncaughtException', () => undefined);
process.on('disconnect', () => process.exit());
process.on('message', (run: Run) => {
  void carryOut(run).then((answer) => process.send?.(answer));
});

async function carryOut(run: Run): Promise<Answer> {
  const begun = performance.now();
  const before = busyWith().length;
  const root = (running = newTest(run));
  root.resume();
  let reached: Reached = { tests: 0, hits: {}, loading: [], isFresh: false };
  let failure: string | undefined;
  const whole = runTests(root, run).then(
    (result) => void (reached = result),
    (error: unknown) => void (failure = String(error)),
  );
  const watch = watchForStanding(before);
  const end = await Promise.race([whole, watch.stuck]);
  watch.stop();
  failure ??= end ?? root.lists.fail[0]?.fullname ?? (root.passing() ? undefined : 'failed');
  // The next mutant loads new modules, because an aborted test can leave modules in any state.
  if (failure !== undefined) loaded.delete(run.bundle);
  const ms = performance.now() - begun;
  const isQuiet = end === undefined && (await becomesQuiet(before));
  return {
    passed: failure === undefined,
    ...(failure !== undefined && { failure }),
    ms,
    ...reached,
    isQuiet,
  };
}

function newTest({ bundle, mutant }: Run) {
  return new Test({ name: path.basename(bundle), bail: mutant !== undefined });
}

async function runTests(root: ReturnType<typeof newTest>, run: Run): Promise<Reached> {
  const { bundle, only, mutant } = run;
  const switched = mutant === undefined ? {} : { activeMutant: mutant, hitCount: 0, hitLimit: run.hitLimit };
  const known = loaded.get(bundle);
  const loading = run.reload ? load(bundle, switched) : (known ?? load(bundle, {}));
  if (!run.reload) loaded.set(bundle, loading);
  const used = await loading;
  const { namespace, calls } = used;
  const isFresh = !used.isUsed;
  used.isUsed ||= mutant !== undefined;
  const id = `${(started += 1)}`;
  // Each file asks for it when the first of its places is reached, which may be now.
  globals.__stryker__ = namespace;
  Object.assign(namespace, switched, { currentTestId: id });
  const ended = new Promise<void>((resolve) => {
    root.on('end', resolve);
    // Not every test that bails out also ends.
    root.on('bailout', () => resolve());
  });
  let tests = 0;
  for (const { method, given } of calls) {
    if (method === 'test') tests += 1;
    if (method === 'test' && only?.includes(tests - 1) === false) continue;
    (root[method] as (...given: readonly unknown[]) => unknown)(...given);
  }
  root.end();
  await ended;
  Object.assign(namespace, { activeMutant: undefined, hitCount: undefined });
  const { static: atLoad = {}, perTest = {} } = namespace.mutantCoverage ?? {};
  const hits = perTest[id] ?? {};
  if (namespace.mutantCoverage !== undefined) namespace.mutantCoverage.perTest = {};
  return { tests, hits, loading: Object.keys(atLoad), isFresh };
}

async function load(bundle: string, namespace: Namespace): Promise<Loaded> {
  const calls: Call[] = [];
  const record =
    (method: RootMethod) =>
    (...given: unknown[]) =>
      void calls.push({ method, given });
  globals.__stryker__ = namespace;
  const recorders = Object.fromEntries(rootMethods.map((method) => [method, record(method)]));
  const testdir = (): string => mkdtempSync(path.join(tmpdir(), 'waybill-mutate-'));
  // A helper of a file may use the file's `t` within a test.
  globals.testOfMutants = new Proxy(
    { ...recorders, testdir },
    {
      get(target, key) {
        if (key in target) return Reflect.get(target, key) as unknown;
        // Calls the method on the original object, not on this proxy.
        const value = running && (Reflect.get(running, key) as unknown);
        return typeof value === 'function' ? (value.bind(running) as unknown) : value;
      },
    },
  );
  await import(`${pathToFileURL(bundle).href}?${(started += 1)}`);
  return { namespace, calls, isUsed: false };
}

/**
 * Resolves when for a while nothing could make the test go on: alone in its process, it would have ended. Not
 * all work in other threads is told by the system, so while one of them waits for a processor it may be that.
 */
function watchForStanding(before: number): { stuck: Promise<string>; stop: () => void } {
  let idle = 0;
  let waited = 0;
  let resolve: (what: string) => void = () => undefined;
  const stuck = new Promise<string>((settle) => (resolve = settle));
  const timer = setInterval(() => {
    if (busyWith().length > before + 1) {
      idle = 0;
      return;
    }
    const waitedNow = waitOfOtherThreads();
    idle = waitedNow === waited ? idle + 1 : 0;
    waited = waitedNow;
    if (idle === stillStuck) resolve('waits for nothing');
  }, tick);
  return { stuck, stop: () => clearInterval(timer) };
}

async function becomesQuiet(before: number): Promise<boolean> {
  for (let turn = 0; turn < 20; turn += 1) {
    if (busyWith().length <= before) return true;
    await sleep(turn);
  }
  return false;
}

function busyWith(): string[] {
  return process.getActiveResourcesInfo();
}

/** How long all threads but this one were ready to run and did not; 0 where the system does not say. */
function waitOfOtherThreads(): number {
  let sum = 0;
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      if (thread === `${process.pid}`) continue;
      const [, waited = '0'] = readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ');
      sum += Number(waited);
    }
  } catch {
    return 0;
  }
  return sum;
}
