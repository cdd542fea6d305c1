/**
 * Runs bundled test files in a separate process, one after another. Each of them has modules of its own, in
 * which one mutant may be active. The parent process sends one `Run` at a time and waits for the `Answer`.
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
  /** The numbers of the tests to run, starting at 0. If absent, all of them are run. */
  readonly only?: readonly number[];
  readonly mutant?: string;
  /** If a mutant is reached more often than this, it is in an endless loop. */
  readonly hitLimit?: number;
  /** True if the mutant must be active while modules are loaded. In that case, they are loaded again. */
  readonly reload?: boolean;
}

export interface Answer {
  readonly passed: boolean;
  /** The first test that failed. */
  readonly failure?: string;
  readonly ms: number;
  /** The number of tests in the file. */
  readonly tests: number;
  /**
   * How often each mutant was reached by a test, and which of them were reached while modules were loaded.
   */
  readonly hits: Readonly<Record<string, number>>;
  readonly loading: readonly string[];
  /** True if the modules were new, so that earlier runs cannot have affected the result. */
  readonly isFresh: boolean;
  /** True if nothing is still running. */
  readonly isQuiet: boolean;
}

/** The part of the result that is known once the tests have ended. */
type Reached = Pick<Answer, 'tests' | 'hits' | 'loading' | 'isFresh'>;

type Hits = Record<string, number>;
/** Global variables that Stryker uses in the source. */
interface Namespace {
  activeMutant?: string | undefined;
  hitCount?: number | undefined;
  hitLimit?: number | undefined;
  currentTestId?: string;
  mutantCoverage?: { static: Hits; perTest: Record<string, Hits> };
}

/**
 * A test file that has been loaded. Its calls to tap are recorded, so that they can be repeated for each
 * mutant.
 */
interface Loaded {
  readonly namespace: Namespace;
  readonly calls: readonly Call[];
  /** True if a mutant has been active in these modules. It may have changed data that the tests share. */
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

// One counterexample is enough. Simplifying it would take most of the time.
fc.configureGlobal({ endOnFailure: true });

// These come from earlier runs that have left something running. Errors in the current test are handled by
// tap.
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
  // Load new modules for the next mutant, because the test may have stopped halfway.
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
  // Every file reads this once, when its first mutant is reached. That may happen now.
  globals.__stryker__ = namespace;
  Object.assign(namespace, switched, { currentTestId: id });
  const ended = new Promise<void>((resolve) => {
    root.on('end', resolve);
    // A test that bails out does not always end.
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
  // Helpers may use the file's `t` during a test.
  globals.testOfMutants = new Proxy(
    { ...recorders, testdir },
    {
      get(target, key) {
        if (key in target) return Reflect.get(target, key) as unknown;
        // Call the method on the actual object instead of the proxy.
        const value = running && (Reflect.get(running, key) as unknown);
        return typeof value === 'function' ? (value.bind(running) as unknown) : value;
      },
    },
  );
  await import(`${pathToFileURL(bundle).href}?${(started += 1)}`);
  return { namespace, calls, isUsed: false };
}

/**
 * Resolves if a test is stuck: for a while, nothing has been going on that it could be waiting for. Run by
 * itself, the process would have exited. Other threads may be doing something that the system does not
 * report, so this takes longer if they are waiting for a processor.
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

/**
 * Returns how long other threads have been waiting for a processor. Returns 0 if the system does not report
 * it.
 */
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
