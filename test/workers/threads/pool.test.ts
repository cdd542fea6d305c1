import t, { type Test } from 'tap';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import type { JobProgress, PublishJob } from '../../../src/workers/queue/job.ts';
import { type WorkerPool, workerPool, type WorkerPoolOptions } from '../../../src/workers/threads/pool.ts';
import { manualClock } from '../manual-clock.ts';

// Each test starts threads, which takes seconds on a busy machine.
t.setTimeout(0);

const { config } = parseConfig(Buffer.from('pipelines: []'), '/etc/waybill.yml', { home: '/' });

type Setting = Partial<WorkerPoolOptions> & { worker: string };

function open(t: Test, { worker, ...options }: Setting): WorkerPool {
  const pool = workerPool({
    clock: systemClock,
    log: silentLog,
    file: new URL(`../../fixtures/workers/${worker}.mjs`, import.meta.url),
    threads: 1,
    data: {},
    env: {},
    configOf: () => config,
    graceMs: 60_000,
    notify: () => undefined,
    ...options,
  });
  t.teardown(() => pool.close());
  return pool;
}

const published = { run: { dryRun: false, force: false, pipelines: [], counters: {}, warnings: [] } };
const never = new AbortController().signal;
const quiet = { signal: never, onProgress: () => undefined };
const jobOf = (bundlePath: string, pipelineId = 'maps'): PublishJob => ({
  runId: `${pipelineId}.1`,
  pipelineId,
  staged: '/staging/x',
  bundlePath,
});

t.test('a thread gets its data and environment; its progress and log arrive before the answer', async (t) => {
  const lines: object[] = [];
  const log = { ...silentLog, info: (fields: object) => void lines.push(fields) };
  const pool = open(t, { worker: 'well-behaved', data: { answer: 42 }, env: { SEEN: 'yes' }, log });
  const progress: JobProgress[] = [];
  const result = await pool.process(jobOf('.'), { signal: never, onProgress: (one) => progress.push(one) });
  t.same(result, published);
  t.equal(progress.length, 100);
  t.same(lines, [{ run_id: 'maps.1', pipeline_id: 'maps', saw: { answer: 42 }, env: 'yes' }]);
});

for (const [fault, message] of [
  ['throw', /thrown by the worker/],
  ['throw-later', /thrown outside the job/],
  ['reject-later', /rejected outside the job/],
  ['exit', /exited with code: 0/],
  ['out-of-memory', /memory/],
  ['throw-text', /no error at all/],
  ['no-answer', /./],
  ['not-cloneable', /./],
] as const) {
  t.test(
    `a thread that crashes (${fault}) fails its run with worker_failed, and the next run works`,
    async (t) => {
      const notified: Occurrence[] = [];
      const notify = (occurrence: Occurrence): void => void notified.push(occurrence);
      const pool = open(t, { worker: 'misbehaving', limits: { maxOldGenerationSizeMb: 48 }, notify });
      await t.rejects(pool.process(jobOf(fault), quiet), {
        name: 'WaybillError',
        code: 'worker_failed',
        message,
      });
      t.same(await pool.process(jobOf('.'), quiet), published);
      t.same(pool.stats(), { threads: 1, busy: 0, replaced: 1 });
      t.match(
        notified,
        [{ type: 'bundle.publish_failed', data: { run_id: 'maps.1', error: { code: 'worker_failed' } } }],
        'notifiers are called',
      );
    },
  );
}

t.test('a worker module that cannot be loaded, or has no publish, fails the run', async (t) => {
  for (const worker of ['unloadable', 'nothing-exported']) {
    await t.rejects(open(t, { worker }).process(jobOf('.'), quiet), { code: 'worker_failed' }, worker);
  }
});

t.test('invalid messages are logged and ignored', async (t) => {
  const warnings: string[] = [];
  const log = { ...silentLog, error: (_: object, message: string) => void warnings.push(message) };
  const pool = open(t, { worker: 'misbehaving', log });
  t.same(await pool.process(jobOf('garbage'), quiet), published);
  t.equal(warnings.length, 10);
  t.same(await pool.process(jobOf('.'), quiet), published);
});

t.test('progress that its reader cannot use is logged and ignored', async (t) => {
  const warnings: string[] = [];
  const log = { ...silentLog, error: (_: object, message: string) => void warnings.push(message) };
  const pool = open(t, { worker: 'well-behaved', log });
  const onProgress = (): void => {
    throw new TypeError('no such destination');
  };
  t.same(await pool.process(jobOf('.'), { ...quiet, onProgress }), published);
  t.equal(warnings.length, 100);
});

t.test('a thread that does not start fails the run', async (t) => {
  const pool = open(t, {
    worker: 'well-behaved',
    limits: { maxOldGenerationSizeMb: 1, maxYoungGenerationSizeMb: 1 },
  });
  await t.rejects(pool.process(jobOf('.'), quiet), { code: 'worker_failed' });
});

t.test('a crashed thread does not affect the job of another', async (t) => {
  const pool = open(t, { worker: 'misbehaving', threads: 2 });
  const abort = new AbortController();
  let begun: () => void = () => undefined;
  const waits = new Promise<void>((resolve) => (begun = resolve));
  const waiting = pool.process(jobOf('wait'), { signal: abort.signal, onProgress: () => begun() });
  await waits;
  for (const fault of ['exit', 'throw-later'])
    await t.rejects(pool.process(jobOf(fault, 'docs'), quiet), { code: 'worker_failed' });
  t.same(await pool.process(jobOf('.', 'docs'), quiet), published);
  abort.abort(new WaybillError('aborted', 'the test is over'));
  await t.rejects(waiting, { code: 'aborted', message: 'the test is over' });
});

t.test('an abort reaches the thread as a message, so that it can finish the publication', async (t) => {
  const pool = open(t, { worker: 'well-behaved' });
  const abort = new AbortController();
  const onProgress = (): void => abort.abort(new WaybillError('aborted', 'the daemon stops'));
  await t.rejects(pool.process(jobOf('wait'), { signal: abort.signal, onProgress }), {
    code: 'aborted',
    message: 'the daemon stops',
  });
  t.same(await pool.process(jobOf('.'), quiet), published, 'the thread continues');
});

t.test(
  'a thread that ignores an abort is terminated after the grace period, and the next run works',
  async (t) => {
    const pool = open(t, { worker: 'misbehaving', graceMs: 10 });
    const abort = new AbortController();
    const onProgress = (): void => abort.abort(new WaybillError('aborted', 'the daemon stops'));
    await t.rejects(pool.process(jobOf('hang'), { signal: abort.signal, onProgress }), {
      code: 'aborted',
      message: /did not stop within 10 ms/,
    });
    t.same(await pool.process(jobOf('.'), quiet), published);
  },
);

t.test('a stopped publication fails with the code of the reason', async (t) => {
  const pool = open(t, { worker: 'misbehaving', graceMs: 10 });
  for (const [how, message] of [
    ['wait', 'the run was cancelled'],
    ['hang', /did not stop within 10 ms/],
  ] as const) {
    const abort = new AbortController();
    const onProgress = (): void => abort.abort(new WaybillError('cancelled', 'the run was cancelled'));
    const stopped = pool.process(jobOf(how), { signal: abort.signal, onProgress });
    await t.rejects(stopped, { code: 'cancelled', message }, how);
  }
});

t.test('ends a stalled thread, fails its run, and starts the next run', async (t) => {
  const pool = open(t, { worker: 'misbehaving', silenceMs: 2_000 });
  await t.rejects(pool.process(jobOf('hang'), quiet), {
    code: 'worker_failed',
    message: /no sign of life for 2000 ms/,
  });
  t.same(await pool.process(jobOf('.'), quiet), published);
});

t.test('a run that is aborted while it waits never reaches a thread', async (t) => {
  const pool = open(t, { worker: 'misbehaving' });
  const aborted = AbortSignal.abort(new WaybillError('aborted', 'the daemon stops'));
  await t.rejects(pool.process(jobOf('exit'), { ...quiet, signal: aborted }), { code: 'aborted' });
});

t.test('a run that waits for a thread is not held to be stalled, and can be aborted', async (t) => {
  const clock = manualClock();
  const pool = open(t, { worker: 'misbehaving', clock, silenceMs: 1e9 });
  const stop = new AbortController();
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const context = { signal: stop.signal, onProgress: () => begin() };
  const busy = pool.process(jobOf('wait'), context).catch((error: unknown) => error);
  await begun;
  const waiting = pool.process(jobOf('.', 'docs'), quiet);
  waiting.catch(() => undefined);
  const leave = new AbortController();
  const left = pool.process(jobOf('.', 'docs'), { ...quiet, signal: leave.signal });
  await clock.advance(300_000);
  leave.abort(new WaybillError('aborted', 'the client disconnected'));
  await t.rejects(left, { code: 'aborted', message: 'the client disconnected' });
  stop.abort(new WaybillError('aborted', 'the test is over'));
  t.match(await busy, { code: 'aborted' });
  t.same(await waiting, published);
  t.equal(pool.stats().replaced, 0);
});

t.test('a stalled pipeline leaves a thread for the others', async (t) => {
  const pool = open(t, { worker: 'misbehaving', threads: 2 });
  const stop = new AbortController();
  const stalled = [1, 2, 3].map(async () =>
    pool.process(jobOf('wait'), { signal: stop.signal, onProgress: () => undefined }),
  );
  const ends = Promise.allSettled(stalled);
  t.same(await pool.process(jobOf('.', 'docs'), quiet), published);
  stop.abort(new WaybillError('aborted', 'the test is over'));
  for (const end of await ends) t.match(end, { status: 'rejected', reason: { code: 'aborted' } });
  t.same(await pool.process(jobOf('.'), quiet), published, 'its own places are free again');
});

t.test('a run ends at its run_timeout, whether the thread obeys or not', async (t) => {
  const source =
    'pipelines: [{id: maps, run_timeout: 1h, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: /x}]}]';
  const limited = parseConfig(Buffer.from(source), '/etc/waybill.yml', { home: '/' }).config;
  for (const [how, message] of [
    [
      'wait',
      /^the run did not end within 1h \(run_timeout\): it was reading the bundle or comparing a destination$/,
    ],
    ['hang', /\(run_timeout\).*; the worker thread did not stop within 10 ms and was ended$/],
  ] as const) {
    const clock = manualClock();
    const pool = open(t, {
      worker: 'misbehaving',
      clock,
      graceMs: 10,
      silenceMs: 1e9,
      configOf: () => limited,
    });
    let begun: () => void = () => undefined;
    const begins = new Promise<void>((resolve) => (begun = resolve));
    const run = pool.process(jobOf(how), { signal: never, onProgress: () => begun() });
    const refused = t.rejects(run, { code: 'run_timeout', message }, how);
    await begins;
    await clock.advance(3_600_000);
    if (how === 'hang') await clock.advance(10);
    await refused;
  }
});
