/**
 * Runs bundled test files one after another in one process. Each runs in new modules, with at most one
 * mutant. The parent process sends one `Run` at a time and receives one `Answer`.
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
  /** Selected tests of the file, from 0. Absent: all. */
  readonly only?: readonly number[];
  readonly mutant?: string;
  /** A mutant that is reached more often than this loops. */
  readonly hitLimit?: number;
  /** Whether the mutant is active during module loading, so that the modules must be loaded again. */
  readonly reload?: boolean;
}

export interface Answer {
  readonly passed: boolean;
  /** The first failure. */
  readonly failure?: string;
  readonly ms: number;
  /** The number of tests in the file. */
  readonly tests: number;
  /** How often each mutant was reached while the tests ran, and which were reached during module loading. */
  readonly hits: Readonly<Record<string, number>>;
  readonly loading: readonly string[];
  /** Whether the modules were loaded for this run, so that earlier runs cannot have affected the result. */
  readonly isFresh: boolean;
  /** Whether this run has left nothing running. */
  readonly isQuiet: boolean;
}

/** What a finished run has reached. */
type Reached = Pick<Answer, 'tests' | 'hits' | 'loading' | 'isFresh'>;

type Hits = Record<string, number>;
/** Globals that the instrumented code reads and writes. */
interface Namespace {
  activeMutant?: string | undefined;
  hitCount?: number | undefined;
  hitLimit?: number | undefined;
  currentTestId?: string;
  mutantCoverage?: { static: Hits; perTest: Record<string, Hits> };
}

/** A loaded test file: its tap calls are replayed for each mutant. */
interface Loaded {
  readonly namespace: Namespace;
  readonly calls: readonly Call[];
  /** Whether a mutant has run in it, which may have damaged data that its tests share. */
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

// A failing property is enough. Shrinking the counterexample takes most of the time.
fc.configureGlobal({ endOnFailure: true });

// Ignores leftovers of an earlier run. tap catches errors of the current test.
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
  // Each file reads it when its first mutant is reached, which may be now.
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
  // A helper may use the file's `t` within a test.
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
 * Resolves after a while in which nothing could continue the test: alone in its process, it would have ended.
 * The system does not report all work of other threads, so a thread that waits for a processor may be doing
 * some.
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

/** How long all other threads were ready but not scheduled. 0 if the system does not report it. */
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
