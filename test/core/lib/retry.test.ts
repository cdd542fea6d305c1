import t from 'tap';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import {
  briefRetryPolicy,
  defaultRetryPolicy,
  nextTry,
  retry,
  runPauses,
} from '../../../src/core/lib/retry.ts';

/** A clock that only sleeping advances, and a list of the pauses. */
function sleepingClock(): { clock: Clock; pauses: number[] } {
  let now = 0;
  const pauses: number[] = [];
  const sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
    signal?.throwIfAborted();
    pauses.push(ms);
    now += ms;
  };
  return { clock: { ...systemClock, monotonic: () => now, sleep }, pauses };
}

const away = new WaybillError('storage_transient', 'away');
const sum = (pauses: readonly number[]): number => pauses.reduce((total, each) => total + each, 0);

t.test('a call is retried for at least a minute and then fails with the last cause', async (t) => {
  for (const random of [() => 0.01, () => 0.5, () => 0.99]) {
    const { clock, pauses } = sleepingClock();
    const attempt = retry({ policy: defaultRetryPolicy, clock, random }, () => Promise.reject(away));
    await t.rejects(attempt, away);
    t.ok(sum(pauses) >= 60_000 && sum(pauses) <= 70_000, `${sum(pauses)} ms`);
  }
});

t.test(
  'calls to one server share the retry time of an outage, and have it again after an answer',
  async (t) => {
    const { clock, pauses } = sleepingClock();
    const outage = {};
    const call = (work: () => Promise<unknown>): Promise<unknown> =>
      retry({ policy: defaultRetryPolicy, clock, outage, random: () => 0.5 }, work);
    const fail = (): Promise<never> => Promise.reject(away);
    await t.rejects(call(fail), away);
    t.ok(sum(pauses.splice(0)) >= 60_000, 'the first call waits for a minute');
    await t.rejects(call(fail), away);
    t.equal(pauses.splice(0).length, 3, 'a later call is retried briefly');
    t.equal(await call(async () => 'answer'), 'answer');
    await t.rejects(call(fail), away);
    t.ok(sum(pauses) >= 60_000, 'after an answer, the next outage counts from its own start');
  },
);

t.test('survives an outage of ten seconds', async (t) => {
  const { clock } = sleepingClock();
  const result = await retry({ policy: defaultRetryPolicy, clock }, async () => {
    if (clock.monotonic() < 10_000) throw away;
    return 'done';
  });
  t.equal(result, 'done');
});

t.test('an attempt that takes longer than a minute is repeated once', async (t) => {
  let now = 0;
  const clock: Clock = { ...systemClock, monotonic: () => now, sleep: async () => undefined };
  let attempts = 0;
  const work = async (): Promise<never> => {
    attempts += 1;
    now += 120_000;
    throw away;
  };
  await t.rejects(retry({ policy: defaultRetryPolicy, clock }, work), away);
  t.equal(attempts, 2);
});

t.test('waits as long as a server requests, but fails if that is more than a minute', async (t) => {
  const asking = (retryAfterSeconds: number): WaybillError =>
    new WaybillError('storage_transient', 'slow down', { retryAfterSeconds });
  const { clock, pauses } = sleepingClock();
  await retry({ policy: defaultRetryPolicy, clock }, async (attempt) => {
    if (attempt === 1) throw asking(7);
  });
  t.same(pauses, [7_000]);
  await t.rejects(
    retry({ policy: defaultRetryPolicy, clock }, () => Promise.reject(asking(61))),
    { message: 'slow down' },
  );
  t.same(pauses, [7_000]);
});

t.test('a signal ends the pause, and later calls are retried briefly', async (t) => {
  const { clock, pauses } = sleepingClock();
  const stop = new AbortController();
  const reason = new Error('cancelled');
  const aborting = async (): Promise<never> => {
    setImmediate(() => stop.abort(reason));
    throw away;
  };
  const longPauses = { ...defaultRetryPolicy, baseMs: 600_000, capMs: 600_000 };
  const cancelled = retry(
    { policy: longPauses, clock: systemClock, signal: stop.signal, random: () => 0.9 },
    aborting,
  );
  await t.rejects(cancelled, reason);
  const attempts: number[] = [];
  const undo = retry({ policy: defaultRetryPolicy, clock, signal: stop.signal }, async (attempt) => {
    attempts.push(attempt);
    throw away;
  });
  await t.rejects(undo, away);
  t.same(attempts, [1, 2, 3, 4]);
  t.equal(pauses.length, 3);
});

t.test('a silent server gets two attempts, then one, and then none for a while', async (t) => {
  const { clock } = sleepingClock();
  const outage = {};
  let attempts = 0;
  const silent = async (): Promise<never> => {
    attempts += 1;
    await clock.sleep(60_000);
    throw away;
  };
  const part = { policy: briefRetryPolicy, clock, outage };
  const call = (work = silent): Promise<unknown> =>
    retry({ ...part, policy: defaultRetryPolicy }, () => retry(part, work));
  await t.rejects(call(), away);
  t.equal(attempts, 2, 'the retries within a call count toward the same outage');
  await t.rejects(call(), away);
  t.equal(attempts, 2, 'a call that follows fails without an attempt');
  await clock.sleep(20_000);
  await t.rejects(call(), away);
  t.equal(attempts, 3, 'a later call makes one attempt');
  await clock.sleep(20_000);
  t.equal(await call(async () => 'answer' as never), 'answer');
  await t.rejects(call(), away);
  t.equal(attempts, 5, 'after an answer, the next outage counts from its own start');
});

t.test('a call during a new outage makes one attempt on a silent server', async (t) => {
  for (const policy of [briefRetryPolicy, defaultRetryPolicy]) {
    const { clock } = sleepingClock();
    let attempts = 0;
    const open = async (): Promise<never> => {
      attempts += 1;
      await clock.sleep(60_000);
      throw away;
    };
    await t.rejects(retry({ policy, clock, outage: { since: clock.monotonic() } }, open), away);
    t.equal(attempts, 1);
  }
});

t.test('a run fails within a minute after its retry time, however long each attempt takes', async (t) => {
  const forMs = 1_800_000;
  const failsAfter = (tryMs: number, random: () => number): { ms: number; tries: number } => {
    let [startedAt, until]: [number, number | undefined] = [0, undefined];
    for (let attempt = 1; ; attempt += 1) {
      const failedAt = startedAt + tryMs;
      const next = nextTry({ attempt, startedAt, failedAt, until }, forMs, { ...runPauses, random });
      if (next === null) return { ms: failedAt, tries: attempt };
      [startedAt, until] = [next.at, next.until];
    }
  };
  for (const tryMs of [1_000, 30_000, 60_000, 70_000, 120_000, 180_000])
    for (const random of [() => 0, () => 0.3, () => 0.9, Math.random]) {
      const { ms, tries } = failsAfter(tryMs, random);
      t.ok(ms >= forMs - Math.max(0, tryMs - 45_000), `${tryMs} ms: not long before the end`);
      t.ok(ms <= forMs + 60_000, `${tryMs} ms: soon after the end, not ${ms} ms`);
      t.ok(tries > 2);
    }
});

t.test('a first attempt that fails late still allows further ones', async (t) => {
  const first = { attempt: 1, startedAt: 0, failedAt: 7_200_000, until: undefined };
  const pauses = { ...runPauses, random: () => 0.5 };
  t.same(nextTry(first, 1_800_000, pauses), { at: 7_205_000, until: 7_200_000 + 1_620_000 });
  t.same(nextTry(first, 60_000, pauses), { at: 7_205_000, until: 7_200_000 + 54_000 });
});
